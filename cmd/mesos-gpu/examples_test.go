package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// Each command has examples, and they parse.
func TestExamples(t *testing.T) {
	root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
				continue
			}
			if sub.Example == "" {
				t.Errorf("%s has no example", sub.CommandPath())
			}
			for line := range strings.Lines(sub.Example) {
				for _, one := range strings.Split(strings.TrimSpace(line), " | ") {
					exampleWorks(t, sub.CommandPath(), one)
				}
			}
			check(sub)
		}
	}
	check(root)
	for verb := range commandExamples() {
		if c, _, err := root.Find(strings.Fields(verb)); err != nil || c.CommandPath() != "mesos-gpu "+verb {
			t.Errorf("%s has examples, and is no verb: %v", verb, err)
		}
	}
}

// exampleWorks parses a line as the shell and the program do.
func exampleWorks(t *testing.T, of, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " < ")
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
	c, rest, err := root.Find(words[1:])
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if err != nil || !strings.HasPrefix(line, "mesos-gpu ") {
		t.Errorf("%s: %s: %v", of, line, err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Whatever shows something from the scheduler shows it in all the ways.
func TestHabits(t *testing.T) {
	root := newRoot(std{os.Stdin, os.Stdout, os.Stderr, func(string) string { return "" }})
	for _, name := range []string{"ps", "describe", "agents", "gpus", "queue", "quota get"} {
		c, _, err := root.Find(strings.Fields(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range []string{"output", "no-headers", "watch"} {
			if c.Flags().Lookup(flag) == nil {
				t.Errorf("%s has no --%s", name, flag)
			}
		}
	}
}

// shellWords splits a line as a shell does, as far as the documentation goes:
// quotes keep words together, # begins a comment, & is no word.
func shellWords(line string) (words []string) {
	line, _, _ = strings.Cut(line, " #")
	line = strings.TrimSuffix(strings.TrimSpace(line), "&")
	for i, part := range strings.FieldsFunc(line, func(r rune) bool { return r == '"' || r == '\'' }) {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// What the documentation says people type, they can.
func TestDocumentedCommands(t *testing.T) {
	for _, name := range []string{"README.md", "docs/command-line.md", "docs/job-file.md", "docs/operations.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for line := range strings.Lines(string(text)) {
			line, ok := strings.CutPrefix(strings.TrimPrefix(line, "bin/"), "mesos-gpu ")
			if !ok {
				continue
			}
			seen++
			checkCommand(t, name, shellWords(line))
		}
		if seen == 0 {
			t.Errorf("%s names no command", name)
		}
	}
}

func checkCommand(t *testing.T, file string, words []string) {
	t.Helper()
	root := newRoot(std{os.Stdin, os.Stdout, os.Stderr, func(string) string { return "" }})
	c, rest, err := root.Find(words)
	if err != nil || c == root {
		t.Errorf("%s: mesos-gpu %s: no such command, %v", file, strings.Join(words, " "), err)
		return
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("%s: mesos-gpu %s: %v", file, strings.Join(words, " "), err)
		return
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		t.Errorf("%s: mesos-gpu %s: %v", file, strings.Join(words, " "), err)
	}
}

// Each verb has a word for people who read the list of them.
func TestVerbsAreExplained(t *testing.T) {
	root := newRoot(std{os.Stdin, os.Stdout, os.Stderr, func(string) string { return "" }})
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Short == "" {
				t.Errorf("%s says nothing of itself", sub.CommandPath())
			}
			check(sub)
		}
	}
	check(root)
}

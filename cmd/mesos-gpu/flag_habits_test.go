package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"mesos-gpu/internal/cli"
)

// All commands that show data from the scheduler have the same output flags.
func TestOtherToolsFlags(t *testing.T) {
	root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
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

// Each command has a short description in the list of commands.
func TestCommandsHaveExamples(t *testing.T) {
	root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
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

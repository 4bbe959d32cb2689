package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// Every flag for a duration takes days and the forms of Slurm, as the keys of job files do.
func TestDurationFlags(t *testing.T) {
	root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
	checked := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			checked++
			if err := f.Value.Set("1-12:00:00"); err != nil || f.Value.String() != "36h0m0s" {
				t.Errorf("%s --%s 1-12:00:00: got %s, %v", c.CommandPath(), f.Name, f.Value, err)
			}
			if err := f.Value.Set("3600"); err == nil || !strings.Contains(err.Error(), "write 3600s") {
				t.Errorf("%s --%s 3600: got %v", c.CommandPath(), f.Name, err)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(root)
	if checked < 30 {
		t.Errorf("found only %d flags", checked)
	}
}

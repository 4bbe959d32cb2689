package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mesos-gpu/internal/cli"
)

// pageName returns the file name of a command's manual page.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1" }

// TestManual checks that each visible command has a page with all of its flags, and hidden
// ones have none.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
	root.SetArgs([]string{"man", dir})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	pages := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		text, err := os.ReadFile(filepath.Join(dir, pageName(c)))
		switch {
		case c.Hidden || c.Name() == "help":
			if err == nil {
				t.Errorf("%s has a page", c.CommandPath())
			}
			return
		case err != nil:
			t.Error(err)
			return
		}
		pages++
		if strings.Contains(string(text), `\fI`) {
			t.Errorf("%s takes stars or underscores for slanted words", pageName(c))
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(string(text), `\fB--`+f.Name+`\fP`) {
				t.Errorf("%s lacks --%s", pageName(c), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(root)
	if pages < 20 {
		t.Errorf("got %d pages, want at least 20", pages)
	}
}

// setting matches a line of a configuration file, commented out or not.
var setting = regexp.MustCompile(`^(#?)([a-z][a-z-]*)=(.*)$`)

// TestConfigurationFiles checks that a daemon's file has each of its flags once, below an
// explanation. A commented-out value is the flag's default; other values are valid.
func TestConfigurationFiles(t *testing.T) {
	for _, name := range []string{"scheduler", "agent", "local"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "etc", name+".conf"))
			if err != nil {
				t.Fatal(err)
			}
			root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
			command, _, err := root.Find([]string{name})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			explained := false
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSuffix(line, "\n")
				m := setting.FindStringSubmatch(line)
				switch {
				case line == "":
					explained = false
				case m == nil:
					explained = explained || strings.HasPrefix(line, "# ")
					if !strings.HasPrefix(line, "#") {
						t.Errorf("%q is neither a setting nor a comment", line)
					}
				default:
					checkSetting(t, command, m, explained && !seen[m[2]])
					seen[m[2]] = true
				}
			}
			command.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
				if f.Name != "help" && !f.Hidden && !seen[f.Name] {
					t.Errorf("--%s is not there", f.Name)
				}
			})
		})
	}
}

func checkSetting(t *testing.T, c *cobra.Command, m []string, explained bool) {
	t.Helper()
	f := c.NonInheritedFlags().Lookup(m[2])
	switch {
	case f == nil:
		t.Errorf("%s: %s has no such flag", m[0], c.CommandPath())
	case !explained:
		t.Errorf("%s is given twice, or without a comment before it", m[0])
	case m[1] == "#" && m[3] != strings.Trim(f.DefValue, "[]"):
		t.Errorf("%s: the default is %q", m[0], f.DefValue)
	case m[1] == "":
		if err := f.Value.Set(m[3]); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
}

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

// manualPages returns the documentation for users, by file.
func manualPages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md", "isolator/*/README.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no page, %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[file] = string(text)
		}
	}
	return all
}

// documentedCommands returns the commands in a page's code blocks; of a transcript only the
// lines that start with "$ ".
func documentedCommands(text string) (commands []string) {
	prompt := ""
	if strings.Contains(text, "\n$ ") {
		prompt = "$ "
	}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line, shown := strings.CutPrefix(line, prompt)
		line, ours := strings.CutPrefix(strings.TrimPrefix(line, "bin/"), "mesos-gpu ")
		if shown && ours {
			commands = append(commands, line)
		}
	}
	for _, m := range substituted.FindAllStringSubmatch(text, -1) {
		commands = append(commands, m[1])
	}
	return commands
}

// substituted matches commands whose output is part of another command.
var substituted = regexp.MustCompile(`\$\(mesos-gpu ([^)]+)\)`)

// comment matches the start of a comment on a command, redirect a redirection or pipe of the
// shell.
var (
	comment  = regexp.MustCompile(` #|   `)
	redirect = regexp.MustCompile(`^([<>|;&].*|.*;)$`)
)

// shellWords splits a line as a shell does. It implements what the documentation uses: it
// supports quotes and removes optional parts in brackets.
func shellWords(line string) (words []string) {
	if at := comment.FindStringIndex(line); at != nil {
		line = line[:at[0]]
	}
	for i, part := range strings.FieldsFunc(line, func(r rune) bool { return r == '"' || r == '\'' }) {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		for word := range strings.FieldsSeq(part) {
			switch {
			case redirect.MatchString(word):
				if word = strings.TrimSuffix(word, ";"); word != "" && !strings.ContainsAny(word[:1], "<>|&") {
					words = append(words, word)
				}
				return words
			case !strings.HasPrefix(word, "["):
				words = append(words, word)
			}
		}
	}
	return words
}

// inline matches commands within a page's text.
var inline = regexp.MustCompile("`mesos-gpu ([a-z][^`]*)`")

// All documented commands parse.
func TestDocumentedCommands(t *testing.T) {
	seen := 0
	for name, text := range manualPages(t) {
		for _, line := range documentedCommands(text) {
			seen++
			if c := checkCommand(t, name, shellWords(line)); c != nil {
				if err := c.ValidateArgs(c.Flags().Args()); err != nil {
					t.Errorf("%s: mesos-gpu %s: %v", name, line, err)
				}
			}
		}
		for _, m := range inline.FindAllStringSubmatch(text, -1) {
			seen++
			words := shellWords(m[1])
			if strings.HasPrefix(words[len(words)-1], "--") && !strings.Contains(m[1], "=") {
				words = append(words, "1") // the text may mention a flag without its value
			}
			checkCommand(t, name, words)
		}
	}
	if seen < 150 {
		t.Errorf("found only %d commands: the patterns are broken", seen)
	}
}

// checkCommand returns the command that the words refer to after parsing its flags, or nil
// on failure.
func checkCommand(t *testing.T, file string, words []string) *cobra.Command {
	t.Helper()
	root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
	c, rest, err := root.Find(words)
	if err != nil || c == root {
		t.Errorf("%s: mesos-gpu %s: no such command, %v", file, strings.Join(words, " "), err)
		return nil
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("%s: mesos-gpu %s: %v", file, strings.Join(words, " "), err)
		return nil
	}
	return c
}

// code matches inline code in a page, flagName the flags in it.
var (
	code     = regexp.MustCompile("`[^`\\n]*`")
	flagName = regexp.MustCompile("(?:^|[\\s`([])--([a-z][a-z0-9_-]*)")
)

// foreign lists flags of other programs that the documentation mentions.
var foreign = map[string][]string{
	"Mesos": {
		"allocation_interval", "attributes", "authenticate_http_executors", "authenticate_http_readwrite", "cgroups_hierarchy", "cgroups_root",
		"executor_environment_variables", "filter_gpu_resources", "image_providers", "isolation", "resources", "runtime_dir",
	},
	"Mesos's configure": {"enable-install-module-dependencies", "enable-libevent", "enable-ssl"},
	"docker":            {"privileged", "rm"},
	"ray":               {"head"},
	"curl":              {"data-binary", "location-trusted"},
	"nvidia-smi":        {"gpu-reset"},
}

// All documented flags exist.
func TestDocumentedFlags(t *testing.T) {
	ours := map[string]bool{}
	root := newRoot(cli.ProcessIO{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: func(string) string { return "" }})
	var learn func(c *cobra.Command)
	learn = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { ours[f.Name] = true })
		}
		for _, sub := range c.Commands() {
			learn(sub)
		}
	}
	learn(root)
	theirs, named := map[string]bool{}, map[string]bool{}
	for _, list := range foreign {
		for _, name := range list {
			theirs[name] = true
		}
	}
	for page, text := range manualPages(t) {
		for _, quoted := range code.FindAllString(text, -1) {
			for _, m := range flagName.FindAllStringSubmatch(quoted, -1) {
				named[m[1]] = true
				if !ours[m[1]] && !theirs[m[1]] {
					t.Errorf("%s: nothing has a flag --%s", page, m[1])
				}
			}
		}
	}
	for name := range theirs {
		if ours[name] || !named[name] {
			t.Errorf("--%s is ours, or is not named at all: it need not be an exception", name)
		}
	}
	if len(named) < 60 {
		t.Errorf("found only %d flags: the pattern is broken", len(named))
	}
}

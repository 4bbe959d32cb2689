package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// typed is one command of a page and the lines that the page shows below it.
type typed struct {
	page, command string
	shown         []string
}

// transcripts reads the commands of a page's code blocks, which begin with "$ " and
// continue with "> ". It skips blocks without commands, and those that are marked
// "console no-run: REASON".
func transcripts(t *testing.T, page string) []typed {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var list []typed
	for _, m := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(m[1], "console no-run: ") {
			continue
		}
		for line := range strings.Lines(m[2]) {
			line = strings.TrimRight(line, "\n")
			switch command, begins := strings.CutPrefix(line, "$ "); {
			case begins:
				list = append(list, typed{page: filepath.Base(page), command: command})
			case strings.HasPrefix(line, "> "):
				list[len(list)-1].command += "\n" + line[len("> "):]
			default:
				list[len(list)-1].shown = append(list[len(list)-1].shown, line)
			}
		}
	}
	return list
}

// consoleBlock finds a code block that begins with a command: its info string and its text.
var consoleBlock = regexp.MustCompile("(?ms)^```([^\n]*)\n(\\$ .*?)^```")

// pattern returns the expression that output has to match: the lines shown, in order, with
// any text between two lines, and "…" for any text within a line.
func (c typed) pattern() *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?ms)`)
	for i, line := range c.shown {
		if i > 0 {
			b.WriteString(`.*`)
		}
		parts := strings.Split(line, "…")
		for i, part := range parts {
			words := strings.Fields(part)
			for i, w := range words {
				words[i] = regexp.QuoteMeta(w)
			}
			parts[i] = strings.Join(words, ` +`)
		}
		b.WriteString(`^ *` + strings.Join(parts, `[^\n]*`) + ` *$`)
	}
	return regexp.MustCompile(b.String())
}

// isQuery reports whether the command only shows a state, so that it may be repeated until
// the state is the one that the page shows.
func (c typed) isQuery() bool {
	return regexp.MustCompile(`^bin/mesos-gpu (agents|describe|events|gpus|logs|queue|schedules)\b`).MatchString(c.command)
}

// isFollowing reports whether the command runs until it is interrupted.
func (c typed) isFollowing() bool { return strings.Contains(c.command, "logs -f") }

// walker runs the commands of pages, in a folder with links to the repository's files.
type walker struct {
	t       *testing.T
	dir     string
	cluster *cluster
}

func newWalker(t *testing.T) *walker {
	t.Helper()
	w := &walker{t: t, dir: t.TempDir()}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(root, e.Name()), filepath.Join(w.dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestWalk runs the commands of the tutorial and then those of the guides, in order, and
// compares their output with what the pages show. All guides use the tutorial's cluster,
// except those that start one.
func TestWalk(t *testing.T) {
	if hasDriver() {
		t.Skip("the pages show simulated GPUs")
	}
	guides, err := filepath.Glob(filepath.Join("..", "..", "docs", "guides", "*.md"))
	if err != nil || len(guides) < 5 {
		t.Fatalf("found only the guides %v, %v", guides, err)
	}
	walk := transcripts(t, filepath.Join("..", "..", "docs", "tutorial", "getting-started.md"))
	var last []typed
	for _, page := range guides {
		commands := transcripts(t, page)
		switch {
		case len(commands) == 0:
			t.Errorf("%s shows no command that can run", page)
		case slices.ContainsFunc(commands, typed.startsCluster):
			last = append(last, commands...)
		default:
			walk = append(walk, commands...)
		}
	}
	w := newWalker(t)
	verbs := map[string]bool{}
	for _, c := range append(walk, last...) {
		w.runCommand(c)
		if words := strings.Fields(c.command); len(words) > 1 {
			verbs[words[1]] = true
		}
	}
	for _, verb := range strings.Fields("demo local run submit wait logs describe quota queue events cordon drain uncordon kill scale schedules agents gpus discover token validate simulate") {
		if !verbs[verb] {
			t.Errorf("the pages do not show %s", verb)
		}
	}
}

// startsCluster reports whether the command starts another cluster.
func (c typed) startsCluster() bool { return strings.HasPrefix(c.command, "bin/mesos-gpu local ") }

func (w *walker) runCommand(c typed) {
	w.t.Helper()
	switch {
	case c.command == "make demo":
		w.compareOutput(c, func() string { return w.shell(w.recipe("demo")) })
	case c.startsCluster():
		if w.cluster != nil {
			w.cluster.stop()
		}
		w.cluster = launch(w.t, releasedBinary(w.t), append([]string{"local", "--free-ports", "--work-dir", w.t.TempDir()}, strings.Fields(c.command)[2:]...)...)
		w.compareOutput(c, w.cluster.output.String)
	case c.isFollowing():
		w.follow(c)
	default:
		w.compareOutput(c, func() string { return w.shell(c.command) })
	}
}

// compareOutput compares a command's output with the page. It repeats queries until they match.
func (w *walker) compareOutput(c typed, output func() string) {
	w.t.Helper()
	want := c.pattern()
	got := output()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for late := time.After(patience); !want.MatchString(got); got = output() {
		if !c.isQuery() && !c.startsCluster() {
			w.t.Fatalf("%s: $ %s\n%s\nthe page shows\n%s", c.page, c.command, got, strings.Join(c.shown, "\n"))
		}
		select {
		case <-again.C:
		case <-late:
			w.t.Fatalf("%s: $ %s\n%s\nthe page shows, and not within %s,\n%s", c.page, c.command, got, patience, strings.Join(c.shown, "\n"))
		}
	}
}

// newCommand returns a command that runs a line of a page in the shell.
func (w *walker) newCommand(ctx context.Context, line string) *exec.Cmd {
	line = strings.ReplaceAll(line, "bin/mesos-gpu", releasedBinary(w.t))
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Dir = w.dir
	c.Env = os.Environ()
	if w.cluster != nil {
		c.Env = append(c.Env, "MESOS_GPU_API="+w.cluster.api)
	}
	return c
}

// shell runs a command line and returns its output, followed by its error if it fails.
func (w *walker) shell(line string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	out, err := w.newCommand(ctx, line).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s(%v)", out, err)
	}
	return string(out)
}

// recipe returns the commands by which a target of make runs the program.
func (w *walker) recipe(target string) string {
	w.t.Helper()
	var lines []string
	for line := range strings.Lines(w.shell("make --no-print-directory -n " + target)) {
		if strings.HasPrefix(line, "bin/mesos-gpu ") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		w.t.Fatalf("make %s does not run bin/mesos-gpu", target)
	}
	return strings.Join(lines, "")
}

// follow runs a command until its output matches the page, and then interrupts it.
func (w *walker) follow(c typed) {
	w.t.Helper()
	cmd := w.newCommand(w.t.Context(), "exec "+c.command)
	output, ended := newLines(), make(chan struct{})
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { defer close(ended); _ = cmd.Wait() }() // interrupted
	w.compareOutput(c, output.String)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		w.t.Error(err)
	}
	<-ended
}

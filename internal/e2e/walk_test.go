package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// typed is one command of a page and the lines that the page shows below it.
type typed struct {
	command string
	shown   []string
}

// transcripts reads the commands of a page's code blocks: what begins with
// "$ ", and goes on with "> ".
func transcripts(t *testing.T, page string) []typed {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var list []typed
	within := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch command, begins := strings.CutPrefix(line, "$ "); {
		case strings.HasPrefix(line, "```"):
			within = !within
		case !within:
		case begins:
			list = append(list, typed{command: command})
		case len(list) == 0:
			t.Fatalf("%s shows %q before any command", page, line)
		case strings.HasPrefix(line, "> "):
			list[len(list)-1].command += "\n" + line[len("> "):]
		default:
			list[len(list)-1].shown = append(list[len(list)-1].shown, line)
		}
	}
	return list
}

// pattern is what output has to match: the lines shown, in order, with
// anything between two of them, and "…" for anything within one.
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
		b.WriteString(`^` + strings.Join(parts, `[^\n]*`) + ` *$`)
	}
	return regexp.MustCompile(b.String())
}

// asks reports whether people would type it again to see how things are now.
func (c typed) asks() bool {
	return regexp.MustCompile(`^bin/mesos-gpu (agents|describe|events|gpus|logs|queue|schedules)\b`).MatchString(c.command)
}

// follows reports whether it goes on until somebody interrupts it.
func (c typed) follows() bool { return strings.Contains(c.command, "logs -f") }

// walker types a page's commands at the repository's root.
type walker struct {
	t       *testing.T
	cluster *cluster
}

// TestWalk does what a newcomer is told to, in order, and sees what the page
// says that they will see.
func TestWalk(t *testing.T) {
	if hasDriver() {
		t.Skip("the page is about simulated GPUs")
	}
	w := &walker{t: t}
	verbs := map[string]bool{}
	for _, c := range transcripts(t, filepath.Join("..", "..", "docs", "tutorial", "getting-started.md")) {
		w.do(c)
		if words := strings.Fields(c.command); len(words) > 1 {
			verbs[words[1]] = true
		}
	}
	for _, verb := range strings.Fields("demo local run submit wait logs describe quota queue events cordon uncordon kill schedules agents gpus") {
		if !verbs[verb] {
			t.Errorf("the page does not show %s", verb)
		}
	}
}

func (w *walker) do(c typed) {
	w.t.Helper()
	switch {
	case c.command == "make demo":
		w.see(c, func() string { return w.shell(w.recipe("demo")) })
	case strings.HasPrefix(c.command, "bin/mesos-gpu local "):
		w.cluster = start(w.t, strings.Fields(c.command)[2:]...)
		w.see(c, w.cluster.output.String)
	case c.follows():
		w.follow(c)
	default:
		w.see(c, func() string { return w.shell(c.command) })
	}
}

// see compares a command's output with the page. What only asks is asked again
// until it is so.
func (w *walker) see(c typed, output func() string) {
	w.t.Helper()
	want := c.pattern()
	got := output()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for late := time.After(patience); !want.MatchString(got); got = output() {
		if !c.asks() && !strings.HasPrefix(c.command, "bin/mesos-gpu local ") {
			w.t.Fatalf("$ %s\n%s\nthe page shows\n%s", c.command, got, strings.Join(c.shown, "\n"))
		}
		select {
		case <-again.C:
		case <-late:
			w.t.Fatalf("$ %s\n%s\nthe page shows, and not within %s,\n%s", c.command, got, patience, strings.Join(c.shown, "\n"))
		}
	}
}

// prepare makes ready a command line of the page's.
func (w *walker) prepare(ctx context.Context, line string) *exec.Cmd {
	line = strings.ReplaceAll(line, "bin/mesos-gpu", binary)
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Dir = filepath.Join("..", "..")
	c.Env = os.Environ()
	if w.cluster != nil {
		c.Env = append(c.Env, "MESOS_GPU_API="+w.cluster.api)
	}
	return c
}

// shell runs a command line and returns all that it says.
func (w *walker) shell(line string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	out, err := w.prepare(ctx, line).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s(%v)", out, err)
	}
	return string(out)
}

// recipe is what make does with the program once it is built.
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

// follow runs a command until it has said what the page shows, and then
// interrupts it, as people do.
func (w *walker) follow(c typed) {
	w.t.Helper()
	cmd := w.prepare(w.t.Context(), "exec "+c.command)
	output, ended := newLines(), make(chan struct{})
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { defer close(ended); _ = cmd.Wait() }() // interrupted
	w.see(c, output.String)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		w.t.Error(err)
	}
	<-ended
}

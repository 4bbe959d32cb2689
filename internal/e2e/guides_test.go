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

// docCommand is a command in a page, and the lines of output that the page shows.
type docCommand struct {
	page, command string
	shown         []string
}

// readDocCommands reads the commands of a page's code blocks, which begin with "$ " and
// continue with "> ". It skips blocks without commands, and those that are marked
// "console no-run: REASON".
func readDocCommands(t *testing.T, page string) []docCommand {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var list []docCommand
	for _, m := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(m[1], "console no-run: ") {
			continue
		}
		for line := range strings.Lines(m[2]) {
			line = strings.TrimRight(line, "\n")
			switch command, begins := strings.CutPrefix(line, "$ "); {
			case begins:
				list = append(list, docCommand{page: filepath.Base(page), command: command})
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

// outputPattern returns the expression that output has to match: the lines shown, in order, with
// any text between two lines, and "…" for any text within a line.
func (c docCommand) outputPattern() *regexp.Regexp {
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
func (c docCommand) isQuery() bool {
	return regexp.MustCompile(`^bin/mesos-gpu (agents|describe|events|gpus|logs|ps|queue|schedules)\b`).MatchString(c.command)
}

// isFollowing reports whether the command runs until it is interrupted.
func (c docCommand) isFollowing() bool { return strings.Contains(c.command, "logs -f") }

// docRunner runs the commands of pages in a folder with links to the repository's files.
type docRunner struct {
	t       *testing.T
	dir     string
	cluster *cluster
}

func newDocRunner(t *testing.T) *docRunner {
	t.Helper()
	w := &docRunner{t: t, dir: t.TempDir()}
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

// TestGuidesWorkAsWritten runs the commands of the README, of the tutorial and then those of the guides, in order, and
// compares their output with what the pages show. All guides use the tutorial's cluster,
// except those that start one.
func TestGuidesWorkAsWritten(t *testing.T) {
	t.Parallel()
	if hasDriver() {
		t.Skip("the pages show simulated GPUs")
	}
	guides, err := filepath.Glob(filepath.Join("..", "..", "docs", "guides", "*.md"))
	if err != nil || len(guides) < 5 {
		t.Fatalf("found only the guides %v, %v", guides, err)
	}
	walk := readDocCommands(t, filepath.Join("..", "..", "README.md"))
	if len(walk) < 5 {
		t.Errorf("the README shows only %d commands", len(walk))
	}
	walk = append(walk, readDocCommands(t, filepath.Join("..", "..", "docs", "tutorial", "getting-started.md"))...)
	var last []docCommand
	for _, page := range guides {
		commands := readDocCommands(t, page)
		switch {
		case len(commands) == 0:
			t.Errorf("%s shows no command that can run", page)
		case slices.ContainsFunc(commands, docCommand.startsCluster):
			last = append(last, commands...)
		default:
			walk = append(walk, commands...)
		}
	}
	w := newDocRunner(t)
	verbs := map[string]bool{}
	for _, c := range append(walk, last...) {
		w.runCommand(c)
		if words := strings.Fields(c.command); len(words) > 1 {
			verbs[words[1]] = true
		}
	}
	for _, verb := range strings.Fields("demo local run submit wait logs describe quota queue events cordon drain uncordon kill " +
		"scale schedules agents gpus discover token validate simulate") {
		if !verbs[verb] {
			t.Errorf("the pages do not show %s", verb)
		}
	}
}

// startsCluster reports whether the command starts another cluster.
func (c docCommand) startsCluster() bool { return strings.HasPrefix(c.command, "bin/mesos-gpu local ") }

func (w *docRunner) runCommand(c docCommand) {
	w.t.Helper()
	switch {
	case c.command == "make demo":
		w.compareOutput(c, func() string { return w.runShell(w.makeRecipe("demo")) })
	case c.startsCluster():
		if w.cluster != nil {
			w.cluster.stop()
		}
		w.cluster = startDaemon(w.t, buildReleased(w.t), append([]string{"local", "--free-ports", "--work-dir", makeWorkDir(w.t)},
			strings.Fields(c.command)[2:]...)...)
		w.compareOutput(c, w.cluster.output.String)
	case c.isFollowing():
		w.followOutput(c)
	default:
		w.compareOutput(c, func() string { return w.runShell(c.command) })
	}
}

// compareOutput compares a command's output with the page. It repeats queries until they match.
func (w *docRunner) compareOutput(c docCommand, output func() string) {
	w.t.Helper()
	want := c.outputPattern()
	got := output()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for late := time.After(waitTimeout); !want.MatchString(got); got = output() {
		if !c.isQuery() && !c.startsCluster() {
			w.t.Fatalf("%s: $ %s\n%s\nthe page shows\n%s", c.page, c.command, got, strings.Join(c.shown, "\n"))
		}
		select {
		case <-again.C:
		case <-late:
			w.t.Fatalf("%s: $ %s\n%s\nthe page shows, and not within %s,\n%s", c.page, c.command, got, waitTimeout, strings.Join(c.shown, "\n"))
		}
	}
}

// newCommand returns a command that runs a line of a page in the shell.
func (w *docRunner) newCommand(ctx context.Context, line string) *exec.Cmd {
	line = strings.ReplaceAll(line, "bin/mesos-gpu", buildReleased(w.t))
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Dir = w.dir
	c.Env = os.Environ()
	if w.cluster != nil {
		c.Env = append(c.Env, "MESOS_GPU_API="+w.cluster.api)
	}
	return c
}

// runShell runs a command line and returns its output, followed by its error if it fails.
func (w *docRunner) runShell(line string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), waitTimeout)
	defer cancel()
	out, err := w.newCommand(ctx, line).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s(%v)", out, err)
	}
	return string(out)
}

// makeRecipe returns the commands by which a target of make runs the program.
func (w *docRunner) makeRecipe(target string) string {
	w.t.Helper()
	var lines []string
	for line := range strings.Lines(w.runShell("make --no-print-directory -n " + target)) {
		if strings.HasPrefix(line, "bin/mesos-gpu ") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		w.t.Fatalf("make %s does not run bin/mesos-gpu", target)
	}
	return strings.Join(lines, "")
}

// followOutput runs a command until its output matches the page, and then interrupts it.
func (w *docRunner) followOutput(c docCommand) {
	w.t.Helper()
	cmd := w.newCommand(w.t.Context(), "exec "+c.command)
	output, ended := newOutputBuffer(), make(chan struct{})
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

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// The YAML output has the same content and order as the JSON output. Strings that YAML would
// parse as another type keep their quotes.
func TestYAMLMatchesJSON(t *testing.T) {
	one := 1
	v := map[string]any{"a_list": []string{"no", "007", "0x1f", "1e3", "~", "null", "2026-01-01", "", "a: b", "# c", "- d", "two\nlines", "\x00\u2028", "ü"}, "number": 1.5e-7, "large": 1 << 53, "yes": true, "none": nil, "empty": []int{}, "nothing": map[string]int{}, "deep": map[string]*int{"one": &one}}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cli.ToYAML(text)
	if err != nil {
		t.Fatal(err)
	}
	var fromJSON, fromYAML any
	if err := json.Unmarshal(text, &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(got, &fromYAML); err != nil {
		t.Fatalf("%v in:\n%s", err, got)
	}
	again, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(again, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fromJSON, want); diff != "" {
		t.Errorf("(-JSON +YAML):\n%s", diff)
	}
	c := newFakeCluster(fakeJob("a", time.Hour, job.Running))
	if r := c.command(t, "describe a -o yaml"); !strings.HasPrefix(r.out, "spec:\n  name: a\n  tasks: 1\n") || strings.ContainsAny(r.out, "{") && !strings.Contains(r.out, "{}") {
		t.Errorf("got status %d:\n%s", r.status, r.out)
	}
}

// The machine-readable output is the response of the API.
func TestJSONMatchesAPI(t *testing.T) {
	c := newFakeCluster(fakeJob("a", time.Hour, job.Running))
	c.gpus = []api.GPUView{{UUID: "GPU-1", Type: "V100", MemMiB: 16384}}
	var jobs []api.JobView
	if r := c.command(t, "ps -o json"); json.Unmarshal([]byte(r.out), &jobs) != nil || len(jobs) != 1 || jobs[0].State != job.Running {
		t.Errorf("got %+v", r)
	}
	var gpus []api.GPUView
	if r := c.command(t, "gpus --output=json"); json.Unmarshal([]byte(r.out), &gpus) != nil || len(gpus) != 1 || gpus[0] != c.gpus[0] {
		t.Errorf("got %+v", r)
	}
	newFakeCluster().command(t, "ps -o json").expect(t, "[]\n", "", 0)
	newFakeCluster().command(t, "ps -o yaml").expect(t, "[]\n", "", 0)
}

// Tables fit a terminal: droppable columns are dropped first, then sentences are truncated at
// their ends and names in the middle. With -o wide or without a terminal they are complete.
func TestTablesFit(t *testing.T) {
	head := []string{"TASK", "STATE", "GPUS", "MESSAGE"}
	rows := func() [][]string {
		return [][]string{
			{"a-task-with-a-rather-long-name.0.1", "RUNNING", strings.Repeat("GPU-0123456789,", 4), "mü " + strings.Repeat("x", 60)},
			{"b", "FAILED", "-", "short\tand\nbad\x1b[31m"},
		}
	}
	whole := strings.Repeat("GPU-0123456789,", 4) + "  mü " + strings.Repeat("x", 60) + "\n"
	for _, test := range []struct {
		columns, want int
		wide          bool
		has           string
	}{
		{0, 170, false, whole}, {72, 170, true, whole}, {300, 170, false, whole},
		{140, 140, false, "GPU-0123456789,  mü xxx"},
		{80, 80, false, "a-task-with-a-rather-long-name.0.1  RUNNING  mü " + strings.Repeat("x", 31) + "…\n"},
		{60, 60, false, "a-task-wi…-name.0.1  RUNNING  mü " + strings.Repeat("x", 26) + "…\n"},
		{40, 40, false, "RUNNING  mü x"},
	} {
		var out bytes.Buffer
		p := (&term.TablePrinter{Writer: &out, TerminalScreen: term.TerminalScreen{Columns: test.columns}, Wide: test.wide}).DropFirst("GPUS")
		if err := p.WriteTable(head, rows()); err != nil {
			t.Fatal(err)
		}
		longest := 0
		for line := range strings.Lines(out.String()) {
			longest = max(longest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		if longest != test.want || !strings.Contains(out.String(), test.has) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%+v: the longest line has %d characters:\n%s", test, longest, &out)
		}
	}
}

// Only states have colors.
func TestStateColors(t *testing.T) {
	var out bytes.Buffer
	p := &term.TablePrinter{Writer: &out, TerminalScreen: term.TerminalScreen{Columns: 80, UseColor: true}}
	if err := p.WriteTable([]string{"JOB", "STATE", "TASKS"}, [][]string{{"RUNNING", "RUNNING", "1"}, {"b", "FAILED", "2"}, {"c", "WAITING", "3"}, {"d", "FINISHED", "4"}}); err != nil {
		t.Fatal(err)
	}
	if want := "JOB      STATE     TASKS\nRUNNING  \x1b[32mRUNNING\x1b[0m   1\nb        \x1b[31mFAILED\x1b[0m    2\nc        \x1b[33mWAITING\x1b[0m   3\nd        FINISHED  4\n"; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}

// pseudoTerminal returns both ends of a terminal with so many columns.
func pseudoTerminal(t *testing.T, columns uint16) (shown, tty *os.File) {
	t.Helper()
	shown, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs pseudo terminals: %v", err)
	}
	t.Cleanup(func() { shown.Close() })
	if err := unix.IoctlSetPointerInt(int(shown.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, shown.Fd(), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY)
	if errno != 0 {
		t.Fatal(errno)
	}
	tty = os.NewFile(fd, "tty")
	t.Cleanup(func() { tty.Close() })
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return shown, tty
}

// The width is that of the terminal, and colors are on unless the user disables them.
func TestTerminal(t *testing.T) {
	_, tty := pseudoTerminal(t, 57)
	for env, want := range map[string]term.TerminalScreen{"": {Columns: 57, Rows: 10, UseColor: true}, "NO_COLOR=1": {Columns: 57, Rows: 10, UseColor: false}, "TERM=dumb": {Columns: 57, Rows: 10, UseColor: false}} {
		name, value, _ := strings.Cut(env, "=")
		a := &cli.App{ProcessIO: cli.ProcessIO{Stdout: tty, Getenv: func(asked string) string { return map[string]string{name: value}[asked] }}}
		if got := a.CurrentScreen(); got != want {
			t.Errorf("%s: got %+v, want %+v", env, got, want)
		}
	}
	if got := (&cli.App{ProcessIO: cli.ProcessIO{Stdout: &bytes.Buffer{}}}).CurrentScreen(); got != (term.TerminalScreen{}) {
		t.Errorf("a buffer is %+v", got)
	}
}

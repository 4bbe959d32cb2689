package unified

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/outputindex"
)

// readInOrder returns the output of a container as its recorded times order it.
func readInOrder(t *testing.T, sandbox, container string) (text string, entries []outputindex.Entry) {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(sandbox, outputindex.FileName))
	if err != nil {
		t.Fatal(err)
	}
	var content [2][]byte
	for _, s := range outputindex.Streams() {
		if content[s], err = os.ReadFile(filepath.Join(sandbox, nestedPath(container, s.String()))); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	entries = outputindex.ParseEntries(index)
	var at outputindex.Positions
	for _, e := range entries {
		for _, s := range outputindex.Streams() {
			text += string(content[s][at[s]:e.Ends[s]])
		}
		at = e.Ends
	}
	return text, entries
}

// The lines that a program writes in turn to both streams keep their order, also those that
// it writes at once.
func TestOutputKeepsItsOrder(t *testing.T) {
	for _, script := range []string{
		`for i in 1 2 3 4 5 6; do echo out$i; echo err$i >&2; done`,
		`for i in 1 2 3; do echo out$i; echo err$i >&2; sleep 0.05; done; echo out4; echo out5; echo err4 >&2`,
	} {
		t.Run("", func(t *testing.T) {
			sandbox := t.TempDir()
			w := watchOutput(sandbox, "c", false, quiet(t))
			folder := filepath.Join(sandbox, "containers", "c")
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			command := exec.CommandContext(t.Context(), "sh", "-c", script)
			var both strings.Builder // what one file for both streams would have
			check := exec.CommandContext(t.Context(), "sh", "-c", script)
			check.Stdout, check.Stderr = &both, &both
			if err := check.Run(); err != nil {
				t.Fatal(err)
			}
			for i, name := range []string{"stdout", "stderr"} {
				f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if i == 0 {
					command.Stdout = f
				} else {
					command.Stderr = f
				}
			}
			if err := command.Run(); err != nil {
				t.Fatal(err)
			}
			w.close()
			if text, entries := readInOrder(t, sandbox, "c"); text != both.String() {
				t.Errorf("the order is\n%swant\n%s%v", text, &both, entries)
			}
		})
	}
}

// Each line has the time of its write.
func TestOutputHasTimes(t *testing.T) {
	sandbox := t.TempDir()
	w := watchOutput(sandbox, "c", false, quiet(t))
	folder := filepath.Join(sandbox, "containers", "c")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(folder, "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entryCount := func() int {
		text, _ := os.ReadFile(filepath.Join(sandbox, outputindex.FileName))
		return len(outputindex.ParseEntries(text))
	}
	var before, after []time.Time
	for i := range 3 {
		before = append(before, time.Now())
		fmt.Fprintln(f, "line", i)
		for entryCount() <= i {
			time.Sleep(time.Millisecond)
		}
		after = append(after, time.Now())
	}
	w.close()
	_, entries := readInOrder(t, sandbox, "c")
	if len(entries) != 3 {
		t.Fatalf("%v", entries)
	}
	for i, e := range entries {
		if e.Time.Before(before[i].Truncate(time.Microsecond)) || e.Time.After(after[i]) {
			t.Errorf("line %d has the time %v, and was written between %v and %v", i, e.Time, before[i], after[i])
		}
	}
}

// TestMuchOutputLeaksNoFile checks that output whose lines are not counted leaves no open file.
func TestMuchOutputLeaksNoFile(t *testing.T) {
	sandbox := t.TempDir()
	w := &outputWatch{sandbox: sandbox, container: "c", ends: outputindex.Positions{maxSplitBytes + 1}}
	path := filepath.Join(sandbox, nestedPath("c", "stdout"))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, maxSplitBytes+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if ends := w.lineEnds(outputindex.Stdout, outputindex.Positions{}); ends != nil {
		t.Errorf("got %d lines of too much output", len(ends))
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		if target, _ := os.Readlink(fd); target == path {
			t.Errorf("%s is still open", path)
		}
	}
}

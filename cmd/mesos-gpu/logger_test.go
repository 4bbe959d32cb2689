package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/cli"
)

// logsInChild makes this test's binary run as a process with a log.
const logsInChild = "MESOS_GPU_TEST_LOGS"

// Each line has a priority only if standard error is the journal. An inherited
// JOURNAL_STREAM may refer to another file.
func TestPriorities(t *testing.T) {
	if os.Getenv(logsInChild) != "" {
		runChild(t)
		return
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(file.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	const lines = "%[1]slevel=debug msg=looked\n%[2]slevel=info msg=\"two\\nlines\"\n%[3]slevel=warning msg=odd\n%[4]slevel=error " +
		"msg=wrong\n%[4]smesos-gpu: ended\n%[4]smesos-gpu: twice\n"
	plain := fmt.Sprintf(lines, "", "", "", "")
	for stream, want := range map[string]string{
		fmt.Sprintf("%d:%d", stat.Dev, stat.Ino):   fmt.Sprintf(lines, "<7>", "<6>", "<4>", "<3>"),
		fmt.Sprintf("%d:%d", stat.Dev, stat.Ino+1): plain,
		"garbage": plain,
		"":        plain,
	} {
		if err := errors.Join(file.Truncate(0), errOf(file.Seek(0, 0))); err != nil {
			t.Fatal(err)
		}
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPriorities$")
		c.Env = append(os.Environ(), logsInChild+"=1", "JOURNAL_STREAM="+stream)
		c.Stderr = file
		if out, err := c.Output(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		got, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(withoutTimes(got))); diff != "" {
			t.Errorf("JOURNAL_STREAM=%s: %s", stream, diff)
		}
	}
}

func errOf(_ int64, err error) error { return err }

// withoutTimes removes the timestamps.
func withoutTimes(log []byte) []byte {
	var all []byte
	for line := range bytes.Lines(log) {
		before, after, found := bytes.Cut(line, []byte("time="))
		if found {
			_, rest, _ := bytes.Cut(after, []byte(" "))
			line = append(bytes.Clone(before), rest...)
		}
		all = append(all, line...)
	}
	return all
}

func runChild(t *testing.T) {
	a := &cli.App{ProcessIO: cli.ProcessIO{Stderr: os.Stderr, Getenv: os.Getenv}}
	log, err := a.NewLogger("debug")
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("looked")
	log.Info("two\nlines")
	log.Warn("odd")
	log.Error("wrong")
	cli.PrintError(a.Stderr, "ended\ntwice")
}

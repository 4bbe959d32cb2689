package agent

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A task can create a named pipe at the path of a nested container's output.
func TestOutputPipeWithoutReaderDoesNotBlock(t *testing.T) {
	sandbox := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(sandbox, "stdout"), 0o600); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		out, err := openOutput(sandbox, ".", nil)
		out.close()
		opened <- err
	}()
	select {
	case err := <-opened:
		if !errors.Is(err, unix.ENXIO) {
			t.Errorf("error %v, want %v", err, unix.ENXIO)
		}
	case <-time.After(patience):
		t.Error("openOutput waits for a reader")
	}
}

func TestFrameworkEndsWithItsLastExecutor(t *testing.T) {
	r := newRig(t, false, nil)
	for n, id := range []string{"first", "second"} {
		r.run(r.custom(id), newTask("task-"+id, "exit"))
		r.master.awaitExit(t, id)
		got, err := askLoop(t.Context(), r.agent.loop, func() ([2]int, error) { return [2]int{len(r.agent.frameworks), len(r.agent.completed)}, nil })
		if want := [2]int{0, n + 1}; err != nil || got != want {
			t.Errorf("after %s: %v live frameworks and completed executors, want %v (%v)", id, got, want, err)
		}
	}
	r.run(r.custom("third"), newTask("t3", "block"))
}

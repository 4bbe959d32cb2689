package agent

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A task can put a pipe where a nested container's output is to go.
func TestOutputIsNoPipeWithoutReader(t *testing.T) {
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

func TestFrameworkIsCompletedOnce(t *testing.T) {
	r := newRig(t, false, nil)
	counts := func() [2]int {
		n, err := askLoop(t.Context(), r.agent.loop, func() [2]int { return [2]int{len(r.agent.frameworks), len(r.agent.completed.frameworks)} })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, id := range []string{"first", "second"} {
		r.run(r.custom(id), newTask("task-"+id, "exit"))
		r.master.awaitExit(t, id)
		if got, want := counts(), [2]int{0, 1}; got != want {
			t.Errorf("after %s: %v live and completed frameworks, want %v", id, got, want)
		}
	}
	r.run(r.custom("third"), newTask("t3", "block"))
	r.master.awaitStates(t, "t3", "RUNNING")
	if got, want := counts(), [2]int{1, 0}; got != want {
		t.Errorf("while it runs: %v live and completed frameworks, want %v", got, want)
	}
}

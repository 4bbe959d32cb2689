package container

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// survivingRig launches containers that survive the engine for a time.
func survivingRig(t *testing.T, fenced bool, keepFor time.Duration) *rig {
	r := newRig(t, fenced)
	r.engine.records = recordStore{filepath.Join(r.dir, "records"), keepFor}
	release, err := r.engine.HoldAlive()
	if err != nil {
		t.Fatal(err)
	}
	release() // only the file is needed
	return r
}

// die closes what the kernel closes when an agent dies, and returns an engine of the next one.
func (r *rig) die(c *RunningContainer) *ContainerEngine {
	r.t.Helper()
	c.control.Close()
	next := *r.engine
	return &next
}

func (r *rig) adopt(e *ContainerEngine, name string) *RunningContainer {
	r.t.Helper()
	adopted, err := e.AdoptContainers()
	if err != nil {
		r.t.Fatal(err)
	}
	if adopted[name] == nil {
		r.t.Fatalf("adopted %v, want %s", adopted, name)
	}
	return adopted[name]
}

func bothKinds(t *testing.T, test func(t *testing.T, fenced bool)) {
	kinds(t, func(t *testing.T, r *rig) { test(t, r.engine.fenced) })
}

func TestContainerSurvivesItsAgent(t *testing.T) {
	bothKinds(t, func(t *testing.T, fenced bool) {
		r := survivingRig(t, fenced, time.Minute)
		c := r.launch(r.spec("until test -e go; do sleep 0.01; done; exit 3"))
		next := r.die(c)
		release, err := next.HoldAlive()
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		again := r.adopt(next, "c1")
		if again.Pid() != c.Pid() {
			t.Errorf("adopted process %d, want %d", again.Pid(), c.Pid())
		}
		if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if s := r.wait(again); s.ExitStatus() != 3 {
			t.Errorf("ended with %v", s)
		}
		again.Forget()
		if left, err := next.AdoptContainers(); len(left) > 0 || err != nil {
			t.Errorf("after Forget: %v, %v", left, err)
		}
	})
}

func TestAdoptedContainerIsKilled(t *testing.T) {
	bothKinds(t, func(t *testing.T, fenced bool) {
		r := survivingRig(t, fenced, time.Minute)
		again := r.adopt(r.die(r.launch(r.spec("sleep 1000 & trap '' TERM; wait; sleep 1000"))), "c1")
		again.Kill()
		if s := r.wait(again); !s.Signaled() || s.Signal() != syscall.SIGKILL {
			t.Errorf("ended with %v", s)
		}
	})
}

func TestContainerThatEndsWithoutAgentIsAdopted(t *testing.T) {
	bothKinds(t, func(t *testing.T, fenced bool) {
		r := survivingRig(t, fenced, time.Minute)
		c := r.launch(r.spec("until test -e go; do sleep 0.01; done; exit 3"))
		next := r.die(c)
		if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.wait(c)
		again := r.adopt(next, "c1")
		again.Kill() // has no effect
		if s := r.wait(again); s.ExitStatus() != 3 {
			t.Errorf("ended with %v", s)
		}
	})
}

// A container that ran when the machine stopped is not returned, so that its task is not taken
// for one that was killed; one that had ended has its status.
func TestContainersOfEarlierBoot(t *testing.T) {
	bothKinds(t, func(t *testing.T, fenced bool) {
		r := survivingRig(t, fenced, time.Minute)
		runs, ended := r.launch(r.spec("until test -e go; do sleep 0.01; done")), r.launch(r.spec("exit 3"))
		r.wait(ended)
		next := r.die(runs)
		for _, c := range []*RunningContainer{runs, ended} {
			path := next.records.path(c.record.ID, recordExtension)
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.ReplaceAll(string(text), bootID(), "earlier")), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		adopted, err := next.AdoptContainers()
		if err != nil || len(adopted) != 1 || adopted["c2"] == nil {
			t.Fatalf("adopted %v, %v", adopted, err)
		}
		if s := r.wait(adopted["c2"]); s.ExitStatus() != 3 {
			t.Errorf("ended with %v", s)
		}
		if left, err := next.records.listRecords(); err != nil || len(left) != 1 {
			t.Errorf("left %v, %v", left, err)
		}
		if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil { // this machine has not restarted
			t.Fatal(err)
		}
		r.wait(runs)
	})
}

// Only containers that run count as survivors of an earlier agent.
func TestHasSurvivors(t *testing.T) {
	bothKinds(t, func(t *testing.T, fenced bool) {
		r := survivingRig(t, fenced, time.Minute)
		if runs, err := HasSurvivors(filepath.Join(r.dir, "none")); runs || err != nil {
			t.Errorf("without an earlier agent: got %t, %v", runs, err)
		}
		c := r.launch(r.spec("until test -e go; do sleep 0.01; done"))
		next := r.die(c)
		if runs, err := HasSurvivors(next.records.dir); !runs || err != nil {
			t.Errorf("a running container: got %t, %v", runs, err)
		}
		if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r.wait(c)
		if runs, err := HasSurvivors(next.records.dir); runs || err != nil {
			t.Errorf("a container that has ended: got %t, %v", runs, err)
		}
	})
}

func TestContainerEndsAfterRecoveryTimeout(t *testing.T) {
	bothKinds(t, func(t *testing.T, fenced bool) {
		r := survivingRig(t, fenced, time.Millisecond)
		c := r.launch(r.spec("trap 'exit 5' TERM; while :; do sleep 0.01; done"))
		r.die(c)
		if s := r.wait(c); s.ExitStatus() != 5 {
			t.Errorf("ended with %v", s)
		}
	})
}

// A container that an earlier agent left is killed with its cgroup, those of adopted ones stay.
func TestClearUnknown(t *testing.T) {
	bothKinds(t, func(t *testing.T, fenced bool) {
		r := survivingRig(t, fenced, time.Minute)
		kept, unknown := r.launch(r.spec("sleep 1000")), r.launch(r.spec("sleep 1000"))
		inner := r.spec("sleep 1000")
		inner.ID, inner.Join = []string{"c1", "inner"}, kept
		r.launch(inner)
		next := r.die(kept)
		unknown.Forget()
		adopted, err := next.AdoptContainers()
		if err != nil || adopted["c1"] == nil || adopted["c1.inner"] == nil {
			t.Fatalf("adopted %v, %v", adopted, err)
		}
		if err := next.ClearUnknown(t.Context(), adopted); err != nil {
			t.Fatal(err)
		}
		if !fenced { // nothing was killed: the next agent ends what it adopted
			for _, c := range adopted {
				c.Kill()
				r.wait(c)
			}
			return
		}
		r.wait(unknown)
		for _, path := range []string{"/c1", "/c1/inner"} {
			if !r.engine.cgroups.cgroupExists(r.engine.cgroup + path) {
				t.Errorf("cgroup %s was removed", path)
			}
		}
		if r.engine.cgroups.cgroupExists(r.engine.cgroup + "/c2") {
			t.Error("the cgroup of an unknown container is still there")
		}
	})
}

func TestSessionsDoNotSurvive(t *testing.T) {
	bothKinds(t, func(t *testing.T, fenced bool) {
		r := survivingRig(t, fenced, time.Minute)
		c := r.launch(r.spec("sleep 1000"))
		s := r.spec("sleep 1000")
		s.Enter = c
		session := r.launch(s)
		session.control.Close()
		if status := r.wait(session); status.Signal() != syscall.SIGTERM {
			t.Errorf("ended with %v", status)
		}
	})
}

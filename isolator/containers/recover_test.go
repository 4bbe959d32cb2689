package containers_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/containers/kerneltest"
)

func TestFilesLost(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(dir string) error
	}{
		{"removed", os.RemoveAll},
		{"emptied", func(dir string) error { return os.Truncate(filepath.Join(dir, "p.json"), 0) }},
		{"torn", func(dir string) error { return os.Truncate(filepath.Join(dir, "p.json"), 20) }},
		{"of another", func(dir string) error { return os.Rename(filepath.Join(dir, "p.json"), filepath.Join(dir, "z.json")) }},
		{"of nobody", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "p.json"), []byte(`{"holding":{"container":"../p"}}`), 0o600)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t)
			m.launch(t, "p", resources(3, "GPU-0"))
			m.launch(t, "p.part", resources(1, "GPU-0"))
			m.launch(t, "q", resources(1))
			if err := c.spoil(m.cfg.Dir); err != nil {
				t.Fatal(err)
			}
			m.restart(t)
			m.logged(t, "container found again from its cgroup")
			if c.name != "removed" {
				m.logged(t, "container's file is of no use: asking its cgroup")
			}
			m.holds(t, "p", "GPU-0 GPU-2 GPU-3")
			m.holds(t, "p.part", "GPU-0")
			m.holds(t, "q", "GPU-4")
			if _, err := m.Prepare(t.Context(), containers.Launch{Container: "r", Resources: resources(1)}); err == nil {
				t.Error("a device of a container found again was given to another")
			}
			if _, err := m.Update("p", resources(1)); err != nil {
				t.Fatal(err)
			}
			m.holds(t, "p", "GPU-2")
			m.holds(t, "p.part", "")
		})
	}
}

// A file that claims what another container holds does not count.
func TestFilesContradict(t *testing.T) {
	m := newMachine(t)
	m.launch(t, "p", resources(1))
	text, err := os.ReadFile(filepath.Join(m.cfg.Dir, "p.json"))
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(text), `"p"`, `"x"`, 1)
	if err := os.WriteFile(filepath.Join(m.cfg.Dir, "x.json"), []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(m.cfg.Dir, ".new-y.json")
	if err := os.WriteFile(half, text[:10], 0o600); err != nil {
		t.Fatal(err)
	}
	m.restart(t)
	m.logged(t, "container's file contradicts others")
	m.holds(t, "p", "GPU-2")
	if _, err := m.Devices("x"); err == nil {
		t.Error("the forged file counts")
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what a crash left half written is still there")
	}
}

func TestSweepAtStart(t *testing.T) {
	m := newMachine(t)
	m.launch(t, "gone", resources(2, "GPU-0"))
	m.launch(t, "here", resources(1))
	if _, err := m.Prepare(t.Context(), containers.Launch{Container: "coming", Resources: resources(1, "GPU-1")}); err != nil {
		t.Fatal(err)
	}
	m.kernel.Destroy("mesos/gone")
	m.restart(t)
	m.logged(t, "container's cgroup is gone: its devices are free")
	if _, err := m.Devices("gone"); err == nil {
		t.Error("a container without cgroup is still known")
	}
	m.holds(t, "here", "GPU-3")
	m.holds(t, "coming", "GPU-1")
}

// Mesos gives a device to the next task as soon as it has destroyed the last
// one's container; that a daemon was away meanwhile is no reason to refuse it.
func TestSweepWhenInTheWay(t *testing.T) {
	m := newMachine(t)
	m.launch(t, "old", resources(1, "GPU-0"))
	m.launch(t, "other", nil)
	m.kernel.Destroy("mesos/old")
	m.launch(t, "new", resources(1, "GPU-0"))
	m.holds(t, "new", "GPU-0")
	m.launch(t, "all", resources(3))
	m.kernel.Destroy("mesos/all")
	if _, err := m.Update("other", resources(3)); err != nil {
		t.Fatal(err)
	}
	m.holds(t, "other", "GPU-2 GPU-3 GPU-4")
}

func TestRecover(t *testing.T) {
	m := newMachine(t)
	m.launch(t, "keep", resources(1))
	m.launch(t, "keep.part", resources(1))
	m.launch(t, "drop", resources(2, "GPU-0"))
	m.launch(t, "lost", resources(1, "GPU-1"))
	m.launch(t, "lost.part", resources(1, "GPU-1"))
	m.kernel.MakeOpen("mesos/past") // launched without the daemon
	for _, name := range []string{"lost.json", "lost.part.json"} {
		if err := os.Remove(filepath.Join(m.cfg.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.restart(t)
	// One that was launched while the daemon had no books.
	if err := m.kernel.Confine("mesos/late", []string{"GPU-0"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and again
		if err := m.Recover([]string{"late", "keep.part", "lost.part", "keep", "lost", "past", "never-heard-of"}); err != nil {
			t.Fatal(err)
		}
		m.holds(t, "keep", "GPU-2")
		m.holds(t, "keep.part", "GPU-2")
		m.holds(t, "lost", "GPU-1")
		m.holds(t, "lost.part", "GPU-1")
		m.holds(t, "late", "GPU-0")
		if _, err := m.Devices("drop"); err == nil {
			t.Error("a container that is not alive is kept")
		}
		if got := m.kernel.Confined()["mesos/drop"]; len(got) != 0 {
			t.Errorf("the kernel still allows it %v", got)
		}
		if _, err := m.Devices("past"); err == nil {
			t.Error("a container that nobody confined was entered with all devices")
		}
	}
	busy := true
	m.kernel.Fail = func(call, cgroup string) error {
		if call == "remove" && cgroup == "mesos/keep" && busy {
			return errors.New("a process is left")
		}
		return nil
	}
	if err := m.Recover(nil); err != nil {
		t.Error(err)
	}
	m.logged(t, "container is not alive for the agent, but keeps its devices")
	if held := m.Holders(); len(held) != 1 || held[0].Container != "keep" {
		t.Errorf("got %v, want keep alone", held)
	}
	busy = false
	if err := m.Recover(nil); err != nil || len(m.Holders()) != 0 {
		t.Errorf("got %v, %v; want nothing kept", m.Holders(), err)
	}
}

// A daemon whose books were lost while it ran learns from the cgroup at the
// next update; a container it was away for is taken on as it stands.
func TestUpdateFindsAgain(t *testing.T) {
	m := newMachine(t)
	m.kernel.Make("mesos/c")
	if got, err := m.Update("c", resources(2, "GPU-0")); err != nil || strings.Join(got, " ") != "GPU-0 GPU-2" {
		t.Errorf("got %v, %v", got, err)
	}
	m.holds(t, "c", "GPU-0 GPU-2")
}

// What the kernel says against the books is told and changes nothing.
func TestCgroupsContradict(t *testing.T) {
	m := newMachine(t)
	m.launch(t, "p", resources(1))
	m.kernel.Make("mesos/x")
	if err := m.kernel.Confine("mesos/x", []string{"GPU-2"}); err != nil {
		t.Fatal(err)
	}
	m.restart(t)
	m.logged(t, "container's cgroup contradicts the books")
	m.holds(t, "p", "GPU-2")
	if _, err := m.Devices("x"); err == nil {
		t.Error("it was entered")
	}
}

// Calls for many containers at the same time, with restarts in between: the
// kernel never lets two unrelated containers open one device.
func TestManyAtOnce(t *testing.T) {
	m := newMachine(t)
	ids := []string{"a", "b", "c", "d", "e"}
	for round := range 5 {
		var all sync.WaitGroup
		for n, id := range ids {
			all.Go(func() {
				for i := range 20 {
					step(t.Context(), m, id, (n+i+round)%4)
					apart(t, m.kernel)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		m.restart(t)
	}
	if err := m.Recover(nil); err != nil || len(m.Holders()) != 0 {
		t.Errorf("%v, %v", err, m.Holders())
	}
}

// step makes one call of each kind; a refusal is as good as an answer.
func step(ctx context.Context, m *machine, id string, gpus int) {
	r := resources(float64(gpus))
	if gpus == 3 {
		r = resources(2, "GPU-0")
	}
	if _, err := m.Prepare(ctx, containers.Launch{Container: id, Resources: r}); err != nil {
		return
	}
	_ = m.Isolate(id, 1)
	_, _ = m.Update(id, resources(float64(gpus%2)))
	_, _ = m.Status(id)
	m.Holders()
	_ = m.Cleanup(id)
}

type reporter interface {
	Helper()
	Errorf(string, ...any)
}

func apart(t reporter, k *kerneltest.Kernel) {
	t.Helper()
	held := map[string]string{}
	for cgroup, devices := range k.Confined() {
		for _, d := range devices {
			other := held[d]
			if other != "" && !strings.HasPrefix(other, cgroup+"/") && !strings.HasPrefix(cgroup, other+"/") {
				t.Errorf("%s and %s may both open %s", other, cgroup, d)
			}
			if len(cgroup) > len(other) {
				held[d] = cgroup
			}
		}
	}
}

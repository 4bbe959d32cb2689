package containers_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mesos-gpu/internal/testing/kerneltest"
	"mesos-gpu/isolator/containers"
)

func TestLostRecordsAreRestoredFromCgroups(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(dir string) error
	}{
		{"removed", os.RemoveAll},
		{"emptied", func(dir string) error { return os.Truncate(filepath.Join(dir, "p.json"), 0) }},
		{"torn", func(dir string) error { return os.Truncate(filepath.Join(dir, "p.json"), 20) }},
		{"of another", func(dir string) error { return os.Rename(filepath.Join(dir, "p.json"), filepath.Join(dir, "z.json")) }},
		{"without a container", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "p.json"), []byte(`{"holding":{"container":"../p"}}`), 0o600)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newManagerFixture(t)
			m.launch(t, "p", resources(3, "GPU-0"))
			m.launch(t, "p.part", resources(1, "GPU-0"))
			m.launch(t, "q", resources(1))
			if err := c.spoil(m.cfg.Dir); err != nil {
				t.Fatal(err)
			}
			m.restart(t)
			m.wantLogged(t, "container restored from its cgroup")
			if c.name != "removed" {
				m.wantLogged(t, "container's file is unreadable: reading its cgroup instead")
			}
			m.wantDevices(t, "p", "GPU-0 GPU-2 GPU-3")
			m.wantDevices(t, "p.part", "GPU-0")
			m.wantDevices(t, "q", "GPU-4")
			if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "r", Resources: resources(1)}); err == nil {
				t.Error("a device of a container found again was given to another")
			}
			if _, err := m.Update("p", resources(1)); err != nil {
				t.Fatal(err)
			}
			m.wantDevices(t, "p", "GPU-2")
			m.wantDevices(t, "p.part", "")
		})
	}
}

// A record that claims another container's device is removed.
func TestContradictingRecordsAreRemoved(t *testing.T) {
	m := newManagerFixture(t)
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
	m.wantLogged(t, "container's file contradicts others")
	m.wantDevices(t, "p", "GPU-2")
	if _, err := m.Devices("x"); err == nil {
		t.Error("the forged file counts")
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what a crash left half written is still there")
	}
}

func TestOpenReleasesEndedContainers(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "gone", resources(2, "GPU-0"))
	m.launch(t, "here", resources(1))
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "coming", Resources: resources(1, "GPU-1")}); err != nil {
		t.Fatal(err)
	}
	m.kernel.DestroyCgroup("mesos/gone")
	m.restart(t)
	m.wantLogged(t, "container's cgroup no longer exists: its devices are released")
	if _, err := m.Devices("gone"); err == nil {
		t.Error("a container without cgroup is still known")
	}
	m.wantDevices(t, "here", "GPU-3")
	m.wantDevices(t, "coming", "GPU-1")
}

// Mesos assigns a device to the next task as soon as the previous container is destroyed.
// If the daemon missed that, it must not reject the new task.
func TestPrepareReleasesEndedContainersOnConflict(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "old", resources(1, "GPU-0"))
	m.launch(t, "other", nil)
	m.kernel.DestroyCgroup("mesos/old")
	m.launch(t, "new", resources(1, "GPU-0"))
	m.wantDevices(t, "new", "GPU-0")
	m.launch(t, "all", resources(3))
	m.kernel.DestroyCgroup("mesos/all")
	if _, err := m.Update("other", resources(3)); err != nil {
		t.Fatal(err)
	}
	m.wantDevices(t, "other", "GPU-2 GPU-3 GPU-4")
}

func TestRecoverReleasesOrphans(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "keep", resources(1))
	m.launch(t, "keep.part", resources(1))
	m.launch(t, "drop", resources(2, "GPU-0"))
	m.launch(t, "lost", resources(1, "GPU-1"))
	m.launch(t, "lost.part", resources(1, "GPU-1"))
	m.kernel.MakeUnconfined("mesos/past") // launched without the daemon
	for _, name := range []string{"lost.json", "lost.part.json"} {
		if err := os.Remove(filepath.Join(m.cfg.Dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.restart(t)
	// A container launched while the daemon had no records.
	if err := m.kernel.ConfineToDevices("mesos/late", []string{"GPU-0"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second recovery finds nothing new
		if err := m.Recover([]string{"late", "keep.part", "lost.part", "keep", "lost", "past", "never-heard-of"}); err != nil {
			t.Fatal(err)
		}
		m.wantDevices(t, "keep", "GPU-2")
		m.wantDevices(t, "keep.part", "GPU-2")
		m.wantDevices(t, "lost", "GPU-1")
		m.wantDevices(t, "lost.part", "GPU-1")
		m.wantDevices(t, "late", "GPU-0")
		if _, err := m.Devices("drop"); err == nil {
			t.Error("a container that is not alive is kept")
		}
		if got := m.kernel.ConfinedDevices()["mesos/drop"]; len(got) != 0 {
			t.Errorf("the kernel still allows it %v", got)
		}
		if _, err := m.Devices("past"); err == nil {
			t.Error("an unconfined container was restored with all devices")
		}
	}
	busy := true
	m.kernel.FailCall = func(call, cgroup string) error {
		if call == "remove" && cgroup == "mesos/keep" && busy {
			return errors.New("a process is left")
		}
		return nil
	}
	if err := m.Recover(nil); err != nil {
		t.Error(err)
	}
	m.wantLogged(t, "container has ended for the agent, but cannot be released")
	if held := m.Holders(); len(held) != 1 || held[0].Container != "keep" {
		t.Errorf("got %v, want keep alone", held)
	}
	busy = false
	if err := m.Recover(nil); err != nil || len(m.Holders()) != 0 {
		t.Errorf("got %v, %v; want nothing kept", m.Holders(), err)
	}
}

// A daemon that lost its records restores a container from its cgroup at the next update.
// A container that started without the daemon is adopted unchanged.
func TestUpdateRestoresFromCgroup(t *testing.T) {
	m := newManagerFixture(t)
	m.kernel.MakeConfined("mesos/c")
	if got, err := m.Update("c", resources(2, "GPU-0")); err != nil || strings.Join(got, " ") != "GPU-0 GPU-2" {
		t.Errorf("got %v, %v", got, err)
	}
	m.wantDevices(t, "c", "GPU-0 GPU-2")
}

// If the kernel contradicts the records, that is logged and nothing changes.
func TestContradictingCgroupsAreLeftUnchanged(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "p", resources(1))
	m.kernel.MakeConfined("mesos/x")
	if err := m.kernel.ConfineToDevices("mesos/x", []string{"GPU-2"}); err != nil {
		t.Fatal(err)
	}
	m.restart(t)
	m.wantLogged(t, "container's cgroup allows devices of other containers")
	m.wantDevices(t, "p", "GPU-2")
	if _, err := m.Devices("x"); err == nil {
		t.Error("it was entered")
	}
}

// Concurrent calls for many containers, with restarts in between: the kernel never allows
// two unrelated containers to open one device.
func TestConcurrentContainers(t *testing.T) {
	m := newManagerFixture(t)
	ids := []string{"a", "b", "c", "d", "e"}
	for round := range 5 {
		var all sync.WaitGroup
		for n, id := range ids {
			all.Go(func() {
				for i := range 20 {
					runLifeCycle(t.Context(), m, id, (n+i+round)%4)
					checkExclusive(t, m.kernel)
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

// runLifeCycle makes one call of each kind and ignores rejections.
func runLifeCycle(ctx context.Context, m *managerFixture, id string, gpus int) {
	r := resources(float64(gpus))
	if gpus == 3 {
		r = resources(2, "GPU-0")
	}
	if _, err := m.Prepare(ctx, containers.LaunchRequest{Container: id, Resources: r}); err != nil {
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

func checkExclusive(t reporter, k *kerneltest.FakeKernel) {
	t.Helper()
	held := map[string]string{}
	for cgroup, devices := range k.ConfinedDevices() {
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

package containers_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/isolator/containers"
)

var errDisk = errors.New("no space left on device")

func (m *managerFixture) mustPrepare(t *testing.T, id string, gpus float64, named ...string) {
	t.Helper()
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: id, Resources: resources(gpus, named...)}); err != nil {
		t.Fatal(err)
	}
}

// After any error while a container is isolated, devices that were opened to it are
// closed again when it shrinks or ends.
func TestIsolateErrors(t *testing.T) {
	disk := func(m *managerFixture) {
		m.SetFileHook(func(string) error { return errDisk })
		_ = m.Isolate("p", 1)
		m.SetFileHook(nil)
	}
	enter := func(m *managerFixture) {
		m.kernel.FailCall = func(call, _ string) error {
			if call == "enter" {
				return errors.New("no such process")
			}
			return nil
		}
		_ = m.Isolate("p", 1)
		m.kernel.FailCall = nil
	}
	again := func(m *managerFixture) { _ = m.Isolate("p", 1) }
	shrink := func(m *managerFixture) { _, _ = m.Update("p", resources(1)) }
	end := func(m *managerFixture) { _ = m.Cleanup("p") }
	restart := func(m *managerFixture) { m.Manager, _ = containers.Open(m.cfg) }
	unmarked := func(m *managerFixture) { // as if the marker had not been saved
		file := filepath.Join(m.cfg.Dir, "p.json")
		text, _ := os.ReadFile(file)
		_ = os.WriteFile(file, []byte(strings.Replace(string(text), `"isolated":true`, `"isolated":false`, 1)), 0o600)
	}
	for _, c := range []struct {
		name  string
		steps []func(*managerFixture)
		want  string
	}{
		{"the disk refuses", []func(*managerFixture){disk}, ""},
		{"the disk refuses, then it is made again", []func(*managerFixture){disk, again, restart, shrink}, "GPU-2"},
		{"the process is gone", []func(*managerFixture){enter, end}, ""},
		{"the process is gone and the daemon dies", []func(*managerFixture){enter, restart, shrink}, "GPU-2"},
		{"its file does not tell", []func(*managerFixture){again, unmarked, restart, shrink}, "GPU-2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newManagerFixture(t)
			m.mustPrepare(t, "p", 2)
			for _, step := range c.steps {
				step(m)
			}
			if got := strings.Join(m.kernel.ConfinedDevices()["mesos/p"], " "); got != c.want {
				t.Errorf("the kernel lets it open %q, want %q", got, c.want)
			}
		})
	}
}

// A released device is free after the call is repeated, also in the saved records.
func TestUpdateRollsBackWhenNotSaved(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "p", resources(3))
	writes := 0
	m.SetFileHook(func(string) error {
		if writes++; writes == 2 {
			return errDisk
		}
		return nil
	})
	if _, err := m.Update("p", resources(1)); !errors.Is(err, errDisk) {
		t.Fatalf("got %v", err)
	}
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "q", Resources: resources(1)}); err == nil {
		t.Error("a device was given out that a file still claims")
	}
	if got, err := m.Update("p", resources(1)); err != nil || strings.Join(got, " ") != "GPU-2" {
		t.Errorf("made again: got %v, %v", got, err)
	}
	m.restart(t)
	m.wantDevices(t, "p", "GPU-2")
	m.mustPrepare(t, "q", 2)
}

// A container that is prepared again holds its old devices until the new record is saved.
func TestRepeatedPrepareRollsBackWhenNotSaved(t *testing.T) {
	m := newManagerFixture(t)
	m.mustPrepare(t, "p", 1, "GPU-0")
	m.SetFileHook(func(file string) error {
		if file != "p.json" {
			return nil
		}
		if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "q", Resources: resources(1, "GPU-0")}); err == nil {
			t.Error("another one got the device meanwhile")
		}
		return errDisk
	})
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "p", Resources: resources(1, "GPU-1")}); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	m.wantDevices(t, "p", "GPU-0")
	m.mustPrepare(t, "q", 1, "GPU-1")
}

// A launch that takes devices from a nested container changes two records. If the second
// cannot be written, the first is restored, and nothing stays reserved.
func TestPrepareRestoresRecords(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "p", resources(2, "GPU-0", "GPU-1"))
	m.launch(t, "p.m.x", resources(1, "GPU-0"))
	written := false
	m.SetFileHook(func(file string) error {
		written = written || file == "p.m.json"
		if file == "p.m.x.json" {
			return errDisk
		}
		return nil
	})
	middle := containers.LaunchRequest{Container: "p.m", Resources: resources(1, "GPU-1")}
	if _, err := m.Prepare(t.Context(), middle); !errors.Is(err, errDisk) || !written {
		t.Fatalf("got %v; record of p.m written: %t", err, written)
	}
	files, err := filepath.Glob(filepath.Join(m.cfg.Dir, "*.json"))
	if err != nil || len(files) != 2 {
		t.Errorf("records %v, %v; want those of p and p.m.x", files, err)
	}
	for range 2 {
		m.wantDevices(t, "p.m.x", "GPU-0")
		m.wantDevices(t, "p.m", "GPU-0 GPU-1") // inherited
		m.restart(t)
	}
	m.mustPrepare(t, "p.n", 1, "GPU-1")
}

// If a container is forgotten in part, its own record remains: it claims what nested containers
// may open.
func TestParentsRecordIsRemovedLast(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "p.a", nil)
	m.mustPrepare(t, "p", 1)
	changes := 0
	m.SetFileHook(func(string) error {
		if changes++; changes == 2 {
			return errDisk
		}
		return nil
	})
	if err := m.Cleanup("p"); !errors.Is(err, errDisk) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(m.cfg.Dir, "p.json")); err != nil {
		t.Errorf("record of p: %v", err)
	}
	m.restart(t)
	m.wantDevices(t, "p", "GPU-2")
}

// If the first record cannot be restored either, what it claims stays reserved until the
// container is cleaned up.
func TestPrepareKeepsWhatRecordsClaim(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "p", resources(2, "GPU-0", "GPU-1"))
	m.launch(t, "p.m.x", resources(1, "GPU-0"))
	failing, first := true, true
	m.SetFileHook(func(file string) error {
		if file == "p.m.json" && first {
			first = false
			return nil
		}
		if failing {
			return errDisk
		}
		return nil
	})
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "p.m", Resources: resources(1, "GPU-1")}); !errors.Is(err, errDisk) {
		t.Fatalf("got %v", err)
	}
	failing = false
	other := containers.LaunchRequest{Container: "p.n", Resources: resources(1, "GPU-1")}
	if _, err := m.Prepare(t.Context(), other); err == nil {
		t.Error("a device was granted that a record claims")
	}
	if err := m.Cleanup("p.m"); err != nil {
		t.Fatal(err)
	}
	m.mustPrepare(t, "p.n", 1, "GPU-1")
}

// A container with nested containers cannot be prepared again.
func TestRepeatedPrepareRejectedWithNestedContainers(t *testing.T) {
	m := newManagerFixture(t)
	m.mustPrepare(t, "p", 2)
	m.launch(t, "p.part", resources(1))
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "p"}); err == nil {
		t.Error("p gave back what p.part may open")
	}
	m.wantDevices(t, "p", "GPU-2 GPU-3")
}

// Containers of another cgroup root are not considered ended.
func TestOpenRejectsRecordsOfOtherCgroups(t *testing.T) {
	for name, other := range map[string]func(*containers.ManagerConfig){
		"root":    func(c *containers.ManagerConfig) { c.CgroupsRoot = "other" },
		"version": func(c *containers.ManagerConfig) { c.CgroupVersion = "v2" },
	} {
		t.Run(name, func(t *testing.T) {
			m := newManagerFixture(t)
			m.launch(t, "p", resources(3))
			cfg := m.cfg
			other(&cfg)
			_, err := containers.Open(cfg)
			if err == nil ||
				!strings.Contains(err.Error(), "contains records of 1 containers of a daemon with --cgroups-root=mesos") ||
				!strings.Contains(err.Error(), "--runtime-dir") {
				t.Errorf("got %v", err)
			}
			m.restart(t)
			m.wantDevices(t, "p", "GPU-2 GPU-3 GPU-4")
			if err := m.Cleanup("p"); err != nil {
				t.Fatal(err)
			}
			if _, err := containers.Open(cfg); err != nil {
				t.Errorf("with no container left: %v", err)
			}
			if _, err := containers.Open(cfg); err != nil {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// A device that is missing after a restart affects only its container.
func TestContainerKeepsRunningWithoutLostDevice(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "p", resources(3, "GPU-0", "GPU-1"))
	m.mustPrepare(t, "coming", 1)
	m.kernel.HostDevices = []string{"-", "GPU-1", "GPU-2", "-", "GPU-4"}
	m.restart(t)
	for _, id := range []string{"p", "p.check"} {
		l := containers.LaunchRequest{Container: id}
		if id == "p" {
			l.Resources = resources(3, "GPU-0", "GPU-1")
		}
		setup, err := m.Prepare(t.Context(), l)
		if err != nil || strings.Join(setup.Devices, " ") != "GPU-1 GPU-2" || len(setup.Nodes) != 2 || setup.Environment["NVIDIA_VISIBLE_DEVICES"] != "GPU-1,GPU-2" {
			t.Errorf("prepare %s: got %+v, %v", id, setup, err)
		}
	}
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{
		Container: "coming",
		Resources: resources(1),
	}); err == nil || !strings.Contains(err.Error(), "GPU-3 is not among") {
		t.Errorf("launched without its device: %v", err)
	}
	if got, err := m.Update("p", resources(2, "GPU-0", "GPU-1")); err != nil || strings.Join(got, " ") != "GPU-0 GPU-1" {
		t.Errorf("shrink by the stock device: got %v, %v", got, err)
	}
	if got := strings.Join(m.kernel.ConfinedDevices()["mesos/p"], " "); got != "GPU-1" {
		t.Errorf("the kernel lets it open %s", got)
	}
	if _, err := m.Update("p", resources(1, "GPU-1")); err != nil {
		t.Error(err)
	}
	m.wantDevices(t, "p", "GPU-1")
	if _, err := m.Update("p", resources(2, "GPU-0", "GPU-1")); err == nil {
		t.Error("a device that is not there was granted again")
	}
}

// A slow driver volume delays only its own container.
func TestSlowDriverVolumeBlocksNoOtherContainer(t *testing.T) {
	m := newManagerFixture(t)
	asked, ready := make(chan struct{}), make(chan struct{})
	m.cfg.DriverVolume = func(context.Context) (string, error) {
		close(asked)
		<-ready
		return "/volume", nil
	}
	m.restart(t)
	m.launch(t, "x", resources(1))
	prepared := make(chan error)
	go func() {
		_, err := m.Prepare(t.Context(), containers.LaunchRequest{
			Container: "slow", Rootfs: true, Resources: resources(1), Image: containers.ImageSettings{Labels: map[string]string{"driver": "yes"}},
		})
		prepared <- err
	}()
	<-asked
	if err := errors.Join(m.Recover([]string{"x", "slow"}), m.Cleanup("x"), m.Cleanup("slow")); err != nil {
		t.Error(err)
	}
	close(ready)
	if err := <-prepared; err != nil {
		t.Error(err)
	}
	m.wantDevices(t, "slow", "GPU-2")
}

// A v1 cgroup starts with its parent's permissions and does not grow automatically.
func TestInheritingCgroupGrowsWithParent(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "p", resources(1))
	for _, cgroup := range []string{"mesos/p/mesos", "mesos/p/mesos/n"} {
		if err := m.kernel.ConfineToDevices(cgroup, []string{"GPU-2"}); err != nil {
			t.Fatal(err)
		}
	}
	m.launch(t, "p.n", nil)
	if _, err := m.Update("p", resources(2)); err != nil {
		t.Fatal(err)
	}
	m.wantDevices(t, "p.n", "GPU-2 GPU-3")
}

// A restarted agent also lists containers that it has not prepared yet.
func TestRecoverBeforePrepare(t *testing.T) {
	m := newManagerFixture(t)
	m.kernel.MakeConfined("mesos/new")
	if err := m.Recover([]string{"new"}); err != nil {
		t.Fatal(err)
	}
	m.launch(t, "new", resources(1))
	m.wantDevices(t, "new", "GPU-2")
}

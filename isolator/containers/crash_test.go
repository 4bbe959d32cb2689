package containers_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mesos-gpu/internal/testing/kerneltest"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
)

// Random calls in random order, with a crash or an error of kernel or disk at any change:
// the kernel never allows more than the records claim, and no device is open to two
// unrelated containers.
func TestCrashAtAnyPointKeepsDevicesExclusive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		k := kerneltest.New("GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4")
		m := &crashingManager{t: t, managerFixture: managerFixture{kernel: k, cfg: containers.ManagerConfig{
			Kernel: k, Dir: dir, Stock: []string{"GPU-2", "GPU-3", "GPU-4"}, DriverVolume: noVolume, NeedsDriver: noDriver, Log: silentLog(),
		}}}
		m.open(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"":              m.checkInvariants,
			"launch":        func(rt *rapid.T) { m.callWithFaults(rt, m.startContainer) },
			"update":        func(rt *rapid.T) { m.callWithFaults(rt, m.changeContainer) },
			"end":           func(rt *rapid.T) { m.callWithFaults(rt, m.endContainer) },
			"agent restart": func(rt *rapid.T) { m.callWithFaults(rt, m.recoverAll) },
			"restart": func(rt *rapid.T) {
				m.callWithFaults(rt, func(*rapid.T) {
					if c, err := containers.Open(m.cfg); err == nil {
						m.Manager = c
					}
				})
			},
		})
	})
}

// crashingManager is a manager whose daemon may crash.
type crashingManager struct {
	managerFixture
	t *testing.T
}

var (
	errFault = errors.New("the kernel or the disk refuses")
	names    = []string{"p", "q", "p.a", "p.b"}
)

func (m *crashingManager) open(rt *rapid.T) {
	c, err := containers.Open(m.cfg)
	if err != nil {
		rt.Fatal(err)
	}
	m.Manager = c
}

// callWithFaults makes a call with at most one fault, and restarts the daemon if it
// crashed.
func (m *crashingManager) callWithFaults(rt *rapid.T, call func(*rapid.T)) {
	at := rapid.IntRange(0, 13).Draw(rt, "fault at change") // number of the change that fails, from 1; 0: none
	kind := rapid.SampledFrom([]string{"dies", "refused once", "refused from then on"}).Draw(rt, "fault")
	n := 0
	fault := func(string) error {
		n++
		switch {
		case at == 0 || n < at || n > at && kind == "refused once":
			return nil
		case kind == "dies":
			panic(errFault)
		}
		return errFault
	}
	m.kernel.FailCall = func(call, _ string) error { return fault(call) }
	m.SetFileHook(fault)
	died := func() (died bool) {
		defer func() {
			switch p := recover(); p {
			case nil:
			case errFault:
				died = true
			default:
				panic(p)
			}
		}()
		call(rt)
		return false
	}()
	m.kernel.FailCall = nil
	m.SetFileHook(nil)
	if died {
		m.open(rt)
	}
}

// checkInvariants compares the kernel with the records. A nested container whose launch
// failed may still have its parent's permissions.
func (m *crashingManager) checkInvariants(rt *rapid.T) {
	checkExclusive(rt, m.kernel)
	for cgroup, devices := range m.kernel.ConfinedDevices() {
		id := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(cgroup, "mesos/"), "/mesos"), "/mesos/", ".")
		root := allocation.RootID(id)
		booked, _ := m.Devices(root)
		for _, d := range devices {
			if !slices.Contains(booked, d) {
				rt.Errorf("the kernel lets %s open %s, the records of %s have %v", id, d, root, booked)
			}
		}
	}
}

// startContainer launches a container as an agent does, and destroys it if the launch
// fails.
func (m *crashingManager) startContainer(rt *rapid.T) {
	id, want := rapid.SampledFrom(names).Draw(rt, "id"), drawResources(rt)
	if _, err := m.Prepare(m.t.Context(), containers.LaunchRequest{Container: id, Resources: want}); err != nil {
		return
	}
	if rapid.Bool().Draw(rt, "waits") {
		return // its first process has not started
	}
	if m.Isolate(id, 1) != nil {
		m.finishContainer(id)
	}
}

func (m *crashingManager) changeContainer(rt *rapid.T) {
	_, _ = m.Update(rapid.SampledFrom(names).Draw(rt, "id"), drawResources(rt))
}

func (m *crashingManager) endContainer(rt *rapid.T) {
	m.finishContainer(rapid.SampledFrom(names).Draw(rt, "id"))
}

func (m *crashingManager) finishContainer(id string) {
	if m.Cleanup(id) == nil {
		m.kernel.DestroyCgroup(cgroupOf(id))
	}
}

func (m *crashingManager) recoverAll(rt *rapid.T) {
	_ = m.Recover(rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(rt, "alive"))
}

func drawResources(rt *rapid.T) []allocation.MesosResource {
	named := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GPU-0", "GPU-1"}), 0, 2, rapid.ID).Draw(rt, "named")
	return resources(float64(len(named)+rapid.IntRange(0, 3).Draw(rt, "stock")), named...)
}

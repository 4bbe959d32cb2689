package containers_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/containers/kerneltest"
	"mesos-gpu/isolator/ledger"
)

// Any calls in any order; in each the daemon may die, or the kernel or the
// disk refuse, at any change of a cgroup or a file: what the kernel allows is
// never more than the books claim, and no device is open to two unrelated
// containers.
func TestDeathAtAnyPoint(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		k := kerneltest.New("GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4")
		m := &mortal{t: t, machine: machine{kernel: k, cfg: containers.Config{
			Kernel: k, Dir: dir, Stock: []string{"GPU-2", "GPU-3", "GPU-4"}, Volume: noVolume, NeedsDriver: noDriver, Log: quiet(),
		}}}
		m.open(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"":              m.check,
			"launch":        func(rt *rapid.T) { m.try(rt, m.start) },
			"update":        func(rt *rapid.T) { m.try(rt, m.change) },
			"end":           func(rt *rapid.T) { m.try(rt, m.end) },
			"agent restart": func(rt *rapid.T) { m.try(rt, m.recover) },
			"restart": func(rt *rapid.T) {
				m.try(rt, func(*rapid.T) {
					if c, err := containers.Open(m.cfg); err == nil {
						m.Containers = c
					}
				})
			},
		})
	})
}

// mortal is a machine whose daemon may die.
type mortal struct {
	machine
	t *testing.T
}

var (
	errFault = errors.New("the kernel or the disk refuses")
	names    = []string{"p", "q", "p.a", "p.b"}
)

func (m *mortal) open(rt *rapid.T) {
	c, err := containers.Open(m.cfg)
	if err != nil {
		rt.Fatal(err)
	}
	m.Containers = c
}

// try makes a call that a fault meets, or none. A daemon that died is started
// again.
func (m *mortal) try(rt *rapid.T, call func(*rapid.T)) {
	at := rapid.IntRange(0, 13).Draw(rt, "fault at change") // of 1, 2, …: 0 for none
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
	m.kernel.Fail = func(call, _ string) error { return fault(call) }
	m.OnFiles(fault)
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
	m.kernel.Fail = nil
	m.OnFiles(nil)
	if died {
		m.open(rt)
	}
}

// check compares the kernel with the books. A nested container whose launch
// failed may still do what its parent may.
func (m *mortal) check(rt *rapid.T) {
	apart(rt, m.kernel)
	for cgroup, devices := range m.kernel.Confined() {
		id := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(cgroup, "mesos/"), "/mesos"), "/mesos/", ".")
		root := ledger.Root(id)
		booked, _ := m.Devices(root)
		for _, d := range devices {
			if !slices.Contains(booked, d) {
				rt.Errorf("the kernel lets %s open %s, the books of %s say %v", id, d, root, booked)
			}
		}
	}
}

// start launches a container as an agent does, which ends it where that fails.
func (m *mortal) start(rt *rapid.T) {
	id, want := rapid.SampledFrom(names).Draw(rt, "id"), draw(rt)
	if _, err := m.Prepare(m.t.Context(), containers.Launch{Container: id, Resources: want}); err != nil {
		return
	}
	if rapid.Bool().Draw(rt, "waits") {
		return // its first process is still to come
	}
	if m.Isolate(id, 1) != nil {
		m.finish(id)
	}
}

func (m *mortal) change(rt *rapid.T) {
	_, _ = m.Update(rapid.SampledFrom(names).Draw(rt, "id"), draw(rt))
}

func (m *mortal) end(rt *rapid.T) { m.finish(rapid.SampledFrom(names).Draw(rt, "id")) }

func (m *mortal) finish(id string) {
	if m.Cleanup(id) == nil {
		m.kernel.Destroy(cgroupOf(id))
	}
}

func (m *mortal) recover(rt *rapid.T) {
	_ = m.Recover(rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(rt, "alive"))
}

func draw(rt *rapid.T) []ledger.Resource {
	named := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GPU-0", "GPU-1"}), 0, 2, rapid.ID).Draw(rt, "named")
	return resources(float64(len(named)+rapid.IntRange(0, 3).Draw(rt, "stock")), named...)
}

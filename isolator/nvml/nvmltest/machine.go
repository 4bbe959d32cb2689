package nvmltest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mesos-gpu/gpu"
)

// Fail makes a function return an NVML error number: for every device, or
// for the one with that index.
type Fail struct {
	Function string
	Index    int // -1: all
	Return   int
}

// Machine is what the library reports.
type Machine struct {
	// SysRoot and ProcRoot are the parts of /sys and /proc that tell of the
	// machine's devices.
	SysRoot, ProcRoot string

	t    testing.TB
	path string

	mu    sync.Mutex
	lines []string // what Report wrote
	// whole and slices name the devices in the library's order.
	whole, slices []gpu.Device
	values        map[string]map[string]uint64
	processes     []string
	events        []string
	lost          map[string]string // how
	hangs         []string
	profiles      []string // of MIG
	busy          []string // instances
	fails         []Fail
}

// maxLinks is how many NVLinks one GPU has at most: devices that list more,
// each other together, reach each other through an NVSwitch.
const maxLinks = 18

// Report sets what the library reports in this process and its children
// until the test ends. Of the devices' fields, NUMA and the minor numbers of
// capability nodes are not NVML's to report: SysRoot and ProcRoot have them.
// A GPU that slices name as their parent is reported in MIG mode.
func Report(t testing.TB, h gpu.Host, fails ...Fail) *Machine {
	t.Helper()
	dir := t.TempDir()
	m := &Machine{
		t: t, path: filepath.Join(dir, "nvml"), fails: fails,
		SysRoot: filepath.Join(dir, "sys"), ProcRoot: filepath.Join(dir, "proc"),
		values: map[string]map[string]uint64{}, lost: map[string]string{},
	}
	m.describe(h)
	m.makeSys()
	m.makeProc()
	m.write()
	t.Setenv(Variable, m.path)
	return m
}

// Become makes it another machine, as after its slices were changed.
func (m *Machine) Become(h gpu.Host) {
	m.t.Helper()
	m.change(func() {
		m.describe(h)
		m.makeProc()
	})
}

// describe writes the lines that stay.
func (m *Machine) describe(h gpu.Host) {
	m.lines, m.whole, m.slices = nil, nil, nil
	major, minor, _ := strings.Cut(h.CUDA, ".")
	m.line("driver %s", h.Driver)
	m.line("cuda %s %s", major, minor)
	for _, d := range h.Devices {
		m.place(d)
	}
	for _, d := range m.whole {
		m.line("gpu %s %d %d %s %s", d.UUID, d.MemMiB, d.Minor, d.PCI, d.Model)
		m.product(d)
	}
	for _, d := range m.slices {
		m.line("mig %s %d %d %d %d %s", d.UUID, d.MemMiB, m.index(d.MIG.Parent), d.MIG.GPUInstance, d.MIG.ComputeInstance, d.Model)
		m.set(d.MIG.Parent, "mig", 1)
	}
	for i, d := range m.whole {
		m.links(i, d)
	}
}

// product tells what NVML has beside a GPU's name.
func (m *Machine) product(d gpu.Device) {
	if d.Persistence {
		m.set(d.UUID, "persistence", 1)
	}
	if digits := strings.ReplaceAll(d.Arch, ".", ""); digits != "" { // "12.1" is 121
		number, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			m.t.Fatalf("device %s has compute capability %q", d.UUID, d.Arch)
		}
		m.set(d.UUID, "arch", number)
	}
	if d.Brand != "" {
		number, ok := brands[d.Brand]
		if !ok {
			m.t.Fatalf("device %s has brand %q, which the stand-in does not know", d.UUID, d.Brand)
		}
		m.set(d.UUID, "brand", number)
	}
}

// brands are nvmlBrandType_t's numbers.
var brands = map[string]uint64{
	"unknown": 0, "quadro": 1, "tesla": 2, "nvs": 3, "grid": 4, "geforce": 5, "titan": 6, "vapps": 7, "vpc": 8, "vcs": 9, "vws": 10,
	"cloudgaming": 11, "quadrortx": 12, "nvidiartx": 13, "nvidia": 14, "geforcertx": 15, "titanrtx": 16, "of tomorrow": 99,
}

// place lists the device, and its parent before its first slice.
func (m *Machine) place(d gpu.Device) {
	if d.MIG == nil {
		m.whole = append(m.whole, d)
		return
	}
	if m.index(d.MIG.Parent) < 0 {
		parent := d
		parent.UUID, parent.MIG = d.MIG.Parent, nil
		parent.Model, _, _ = strings.Cut(d.Model, " MIG ")
		m.whole = append(m.whole, parent)
	}
	m.slices = append(m.slices, d)
}

func (m *Machine) links(i int, d gpu.Device) {
	sum, most := 0, 0
	for _, n := range d.NVLinks {
		sum, most = sum+n, max(most, n)
	}
	if sum > maxLinks {
		m.line("%s", strings.TrimSuffix(strings.Repeat(fmt.Sprintf("link %d -1\n", i), most), "\n"))
	}
	for j, other := range m.whole {
		if n := d.NVLinks[other.UUID]; n > 0 && sum <= maxLinks {
			m.line("link %d -2", i) // between the links that are, one that is not
			m.line("%s", strings.TrimSuffix(strings.Repeat(fmt.Sprintf("link %d %d\n", i, j), n), "\n"))
		}
		if level, ok := levels[d.Paths[other.UUID]]; ok {
			m.line("path %d %d %d", i, j, level)
		}
	}
}

// levels are nvmlGpuTopologyLevel_t's numbers.
var levels = map[gpu.Path]int{
	gpu.SameBoard: 0, gpu.OneBridge: 10, gpu.ManyBridges: 20, gpu.HostBridge: 30, gpu.SameNode: 40, gpu.System: 50,
}

func (m *Machine) line(format string, args ...any) {
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}

// index is the number that the library knows the device by, -1 for none.
func (m *Machine) index(uuid string) int {
	for i, d := range m.whole {
		if d.UUID == uuid {
			return i
		}
	}
	for i, d := range m.slices {
		if d.UUID == uuid {
			return len(m.whole) + i
		}
	}
	return -1
}

func (m *Machine) set(uuid, name string, number uint64) {
	if m.values[uuid] == nil {
		m.values[uuid] = map[string]uint64{}
	}
	m.values[uuid][name] = number
}

// write puts the whole file in place at once.
func (m *Machine) write() {
	m.t.Helper()
	var text strings.Builder
	text.WriteString(strings.Join(m.lines, "\n") + "\n")
	for uuid, values := range m.values {
		for name, number := range values {
			fmt.Fprintf(&text, "value %d %s %d\n", m.index(uuid), name, number)
		}
	}
	for uuid, how := range m.lost {
		fmt.Fprintf(&text, "%s %d\n", how, m.index(uuid))
	}
	for _, l := range slices.Concat(m.processes, m.events, m.hangs, m.profiles, m.busy) {
		text.WriteString(l + "\n")
	}
	for _, f := range m.fails {
		fmt.Fprintf(&text, "fail %s %d %d\n", f.Function, f.Index, f.Return)
	}
	next := m.path + ".next"
	if err := os.WriteFile(next, []byte(text.String()), 0o644); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(next, m.path); err != nil {
		m.t.Fatal(err)
	}
}

// change makes one change that the library sees at its next call.
func (m *Machine) change(f func()) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.write()
}

// event numbers rise within a process whatever the machine.
func (m *Machine) event(uuid string, kind, data uint64) {
	m.t.Helper()
	const none = 0xFFFFFFFF
	index, gi, ci := m.index(uuid), none, none
	for _, d := range m.slices {
		if d.UUID == uuid {
			index, gi, ci = m.index(d.MIG.Parent), d.MIG.GPUInstance, d.MIG.ComputeInstance
		}
	}
	m.change(func() {
		m.events = append(m.events, fmt.Sprintf("event %d %d %d %d %d %d", time.Now().UnixNano(), index, kind, data, gi, ci))
	})
}

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

// FunctionFailure makes a function return an NVML error number, for every device or for the one
// with that index.
type FunctionFailure struct {
	Function string
	Index    int // -1: all
	Return   int
}

// FakeMachine contains the facts that the library reports.
type FakeMachine struct {
	// SysRoot and ProcRoot contain the parts of /sys and /proc that describe the devices.
	SysRoot, ProcRoot string

	t    testing.TB
	path string

	mu    sync.Mutex
	lines []string // what Report wrote
	// physicalGPUs and slices name the devices in the library's order.
	physicalGPUs, migDevices []gpu.Device
	values                   map[string]map[string]uint64
	processes                []string
	events                   []string
	lost                     map[string]string // how
	hangs                    []string
	profiles                 []string // of MIG
	busy                     []string // instances
	fails                    []FunctionFailure
}

// maxLinks is the maximal number of NVLinks of one GPU. Devices that list more, to all others
// together, are connected through an NVSwitch.
const maxLinks = 18

// ReportHost sets what the library reports in this process and its children until the test
// ends. NVML does not report the devices' NUMA nodes and the minor numbers of capability nodes:
// SysRoot and ProcRoot contain them. A GPU that MIG devices name as their parent is reported in
// MIG mode.
func ReportHost(t testing.TB, h gpu.Host, fails ...FunctionFailure) *FakeMachine {
	t.Helper()
	dir := t.TempDir()
	m := &FakeMachine{
		t: t, path: filepath.Join(dir, "nvml"), fails: fails,
		SysRoot: filepath.Join(dir, "sys"), ProcRoot: filepath.Join(dir, "proc"),
		values: map[string]map[string]uint64{}, lost: map[string]string{},
	}
	m.describeHost(h)
	m.makeSys()
	m.makeProc()
	m.writeState()
	t.Setenv(StateVariable, m.path)
	return m
}

// ReplaceHost replaces the host, as after a change of its MIG devices.
func (m *FakeMachine) ReplaceHost(h gpu.Host) {
	m.t.Helper()
	m.changeState(func() {
		m.describeHost(h)
		m.makeProc()
	})
}

// describeHost writes the lines that do not change.
func (m *FakeMachine) describeHost(h gpu.Host) {
	m.lines, m.physicalGPUs, m.migDevices = nil, nil, nil
	major, minor, _ := strings.Cut(h.CUDA, ".")
	m.addLine("driver %s", h.Driver)
	m.addLine("cuda %s %s", major, minor)
	for _, d := range h.Devices {
		m.addDevice(d)
	}
	for _, d := range m.physicalGPUs {
		m.addLine("gpu %s %d %d %s %s", d.UUID, d.MemMiB, d.Minor, d.PCI, d.Model)
		m.describeProduct(d)
	}
	for _, d := range m.migDevices {
		m.addLine("mig %s %d %d %d %d %s", d.UUID, d.MemMiB, m.deviceIndex(d.MIG.Parent), d.MIG.GPUInstance, d.MIG.ComputeInstance, d.Model)
		m.setValue(d.MIG.Parent, "mig", 1)
	}
	for i, d := range m.physicalGPUs {
		m.describeLinks(i, d)
	}
}

// describeProduct sets what NVML reports about a GPU's product, except its name.
func (m *FakeMachine) describeProduct(d gpu.Device) {
	if d.Persistence {
		m.setValue(d.UUID, "persistence", 1)
	}
	if digits := strings.ReplaceAll(d.Arch, ".", ""); digits != "" { // "12.1" is 121
		number, err := strconv.ParseUint(digits, 10, 16)
		if err != nil {
			m.t.Fatalf("device %s has compute capability %q", d.UUID, d.Arch)
		}
		m.setValue(d.UUID, "arch", number)
	}
	if d.Brand != "" {
		number, ok := brandNumbers[d.Brand]
		if !ok {
			m.t.Fatalf("device %s has brand %q, which the stand-in does not know", d.UUID, d.Brand)
		}
		m.setValue(d.UUID, "brand", number)
	}
}

// brandNumbers are nvmlBrandType_t's numbers.
var brandNumbers = map[string]uint64{
	"unknown": 0, "quadro": 1, "tesla": 2, "nvs": 3, "grid": 4, "geforce": 5, "titan": 6, "vapps": 7, "vpc": 8, "vcs": 9, "vws": 10,
	"cloudgaming": 11, "quadrortx": 12, "nvidiartx": 13, "nvidia": 14, "geforcertx": 15, "titanrtx": 16, "of tomorrow": 99,
}

// addDevice adds the device, and its parent before its first MIG device.
func (m *FakeMachine) addDevice(d gpu.Device) {
	if d.MIG == nil {
		m.physicalGPUs = append(m.physicalGPUs, d)
		return
	}
	if m.deviceIndex(d.MIG.Parent) < 0 {
		parent := d
		parent.UUID, parent.MIG = d.MIG.Parent, nil
		parent.Model, _, _ = strings.Cut(d.Model, " MIG ")
		m.physicalGPUs = append(m.physicalGPUs, parent)
	}
	m.migDevices = append(m.migDevices, d)
}

func (m *FakeMachine) describeLinks(i int, d gpu.Device) {
	sum, most := 0, 0
	for _, n := range d.NVLinks {
		sum, most = sum+n, max(most, n)
	}
	if sum > maxLinks {
		m.addLine("%s", strings.TrimSuffix(strings.Repeat(fmt.Sprintf("link %d -1\n", i), most), "\n"))
	}
	for j, other := range m.physicalGPUs {
		if n := d.NVLinks[other.UUID]; n > 0 && sum <= maxLinks {
			m.addLine("link %d -2", i) // between the links that are, one that is not
			m.addLine("%s", strings.TrimSuffix(strings.Repeat(fmt.Sprintf("link %d %d\n", i, j), n), "\n"))
		}
		if level, ok := pathLevels[d.Paths[other.UUID]]; ok {
			m.addLine("path %d %d %d", i, j, level)
		}
	}
}

// pathLevels are nvmlGpuTopologyLevel_t's numbers.
var pathLevels = map[gpu.PCIePath]int{
	gpu.SameBoard: 0, gpu.OneBridge: 10, gpu.ManyBridges: 20, gpu.HostBridge: 30, gpu.SameNUMANode: 40, gpu.AcrossNUMANodes: 50,
}

func (m *FakeMachine) addLine(format string, args ...any) {
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}

// deviceIndex returns the library's index of the device, -1 if none exists.
func (m *FakeMachine) deviceIndex(uuid string) int {
	for i, d := range m.physicalGPUs {
		if d.UUID == uuid {
			return i
		}
	}
	for i, d := range m.migDevices {
		if d.UUID == uuid {
			return len(m.physicalGPUs) + i
		}
	}
	return -1
}

func (m *FakeMachine) setValue(uuid, name string, number uint64) {
	if m.values[uuid] == nil {
		m.values[uuid] = map[string]uint64{}
	}
	m.values[uuid][name] = number
}

// writeState replaces the file atomically.
func (m *FakeMachine) writeState() {
	m.t.Helper()
	var text strings.Builder
	text.WriteString(strings.Join(m.lines, "\n") + "\n")
	for uuid, values := range m.values {
		for name, number := range values {
			fmt.Fprintf(&text, "value %d %s %d\n", m.deviceIndex(uuid), name, number)
		}
	}
	for uuid, how := range m.lost {
		fmt.Fprintf(&text, "%s %d\n", how, m.deviceIndex(uuid))
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

// changeState makes one change, which the library sees at its next call.
func (m *FakeMachine) changeState(f func()) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	m.writeState()
}

// addEvent adds an event. Event numbers increase within a process, for all machines.
func (m *FakeMachine) addEvent(uuid string, kind, data uint64) {
	m.t.Helper()
	const none = 0xFFFFFFFF
	index, gi, ci := m.deviceIndex(uuid), none, none
	for _, d := range m.migDevices {
		if d.UUID == uuid {
			index, gi, ci = m.deviceIndex(d.MIG.Parent), d.MIG.GPUInstance, d.MIG.ComputeInstance
		}
	}
	m.changeState(func() {
		m.events = append(m.events, fmt.Sprintf("event %d %d %d %d %d %d", time.Now().UnixNano(), index, kind, data, gi, ci))
	})
}

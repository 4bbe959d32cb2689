package nvmltest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"mesos-gpu/gpu"
)

// scale turns a field's unit into NVML's.
var scale = map[gpu.Field]float64{
	gpu.DutyRatio: 100, gpu.MemDutyRatio: 100,
	gpu.SMClockHertz: 1e-6, gpu.MemClockHertz: 1e-6,
	gpu.PowerWatts: 1e3, gpu.PowerLimitWatts: 1e3, gpu.EnergyJoules: 1e3,
	gpu.PCIeTxBytes: 1e-3, gpu.PCIeRxBytes: 1e-3,
	gpu.NVLinkTxBytes: 1.0 / 1024, gpu.NVLinkRxBytes: 1.0 / 1024,
}

// Measure sets what is measured of a device. What was never set is not
// supported; gpu.MemTotalBytes comes from the device itself.
func (m *Machine) Measure(uuid string, values map[gpu.Field]float64) {
	m.t.Helper()
	m.change(func() {
		for field, v := range values {
			by := scale[field]
			if by == 0 {
				by = 1
			}
			m.set(uuid, string(field), uint64(math.Round(v*by)))
		}
	})
}

// Compute lets a process run kernels on a device, Draw lets it draw.
func (m *Machine) Compute(uuid string, p gpu.Process) { m.use(uuid, p, "compute") }

// Draw lets a process draw on a device.
func (m *Machine) Draw(uuid string, p gpu.Process) { m.use(uuid, p, "graphics") }

func (m *Machine) use(uuid string, p gpu.Process, how string) {
	m.t.Helper()
	m.change(func() {
		m.processes = append(m.processes, fmt.Sprintf("process %d %d %d %s", m.index(uuid), p.PID, uint64(p.MemBytes), how))
	})
}

// XID reports a critical error: of a slice, of a GPU, or, where no device has
// that UUID, of a device that NVML does not name.
func (m *Machine) XID(uuid string, xid uint64) { m.t.Helper(); m.event(uuid, 8, xid) }

// ECC reports a memory error that could not be corrected.
func (m *Machine) ECC(uuid string) { m.t.Helper(); m.event(uuid, 2, 0) }

// ECCCorrected reports a memory error that was.
func (m *Machine) ECCCorrected(uuid string) { m.t.Helper(); m.event(uuid, 1, 0) }

// Lose makes NVML say of a GPU that it is lost, its slices too.
func (m *Machine) Lose(uuid string) {
	m.t.Helper()
	m.change(func() { m.lost[uuid] = "lost" })
}

// Stick makes NVML say so, and keep to it after the GPU's Return until it is
// started anew.
func (m *Machine) Stick(uuid string) {
	m.t.Helper()
	m.change(func() { m.lost[uuid] = "stuck" })
}

// Return brings a lost GPU back.
func (m *Machine) Return(uuid string) {
	m.t.Helper()
	m.change(func() { delete(m.lost, uuid) })
}

// Hang makes a function of a GPU not return until Resume.
func (m *Machine) Hang(uuid, function string) {
	m.t.Helper()
	m.change(func() { m.hangs = append(m.hangs, fmt.Sprintf("hang %s %d", function, m.index(uuid))) })
}

// Resume lets all that hang return.
func (m *Machine) Resume() {
	m.t.Helper()
	m.change(func() { m.hangs = nil })
}

// Fail replaces the functions that fail.
func (m *Machine) Fail(fails ...Fail) {
	m.t.Helper()
	m.change(func() { m.fails = fails })
}

// Unplug takes a GPU off the PCI bus: what is read there is all ones.
func (m *Machine) Unplug(uuid string) { m.config(uuid, "\xff\xff\xff\xff") }

// Plug puts it back.
func (m *Machine) Plug(uuid string) { m.config(uuid, "\xde\x10\xb0\x20") }

func (m *Machine) config(uuid, text string) {
	m.t.Helper()
	d := m.whole[m.index(uuid)]
	m.file(filepath.Join(m.SysRoot, "bus/pci/devices", d.PCI, "config"), text)
}

// makeSys makes what sysfs has of each GPU, and of the NVSwitches.
func (m *Machine) makeSys() {
	for _, d := range m.whole {
		m.file(filepath.Join(m.SysRoot, "bus/pci/devices", d.PCI, "numa_node"), fmt.Sprintf("%d\n", d.NUMA))
		m.Plug(d.UUID)
	}
	for link := range maxLinks {
		m.file(filepath.Join(m.SysRoot, fmt.Sprintf("bus/pci/devices/0000:%02x:00.0/class", 0xc4+link)), "0x068000\n")
	}
}

func (m *Machine) makeProc() {
	text := "config 1\nmonitor 2\n"
	seen := map[string]bool{}
	for _, d := range m.slices {
		gi := fmt.Sprintf("gpu%d/gi%d/", d.Minor, d.MIG.GPUInstance)
		if !seen[gi] {
			text += fmt.Sprintf("%saccess %d\n", gi, d.MIG.GPUInstanceCap)
		}
		seen[gi] = true
		text += fmt.Sprintf("%sci%d/access %d\n", gi, d.MIG.ComputeInstance, d.MIG.ComputeInstanceCap)
	}
	if len(m.slices) > 0 {
		m.file(filepath.Join(m.ProcRoot, "driver/nvidia-caps/mig-minors"), text)
	}
}

func (m *Machine) file(path, text string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path+".next", []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		m.t.Fatal(err)
	}
}

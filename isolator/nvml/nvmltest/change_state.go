package nvmltest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"mesos-gpu/gpu"
)

// unitScale turns a field's unit into NVML's.
var unitScale = map[gpu.SampleField]float64{
	gpu.DutyRatio: 100, gpu.MemDutyRatio: 100,
	gpu.SMClockHertz: 1e-6, gpu.MemClockHertz: 1e-6,
	gpu.PowerWatts: 1e3, gpu.PowerLimitWatts: 1e3, gpu.EnergyJoules: 1e3,
	gpu.PCIeTxBytes: 1e-3, gpu.PCIeRxBytes: 1e-3,
	gpu.NVLinkTxBytes: 1.0 / 1024, gpu.NVLinkRxBytes: 1.0 / 1024,
}

// SetMeasurements sets what is measured of a device. What was never set is not
// supported; gpu.MemTotalBytes comes from the device itself.
func (m *FakeMachine) SetMeasurements(uuid string, values map[gpu.SampleField]float64) {
	m.t.Helper()
	m.changeState(func() {
		for field, v := range values {
			by := unitScale[field]
			if by == 0 {
				by = 1
			}
			m.setValue(uuid, string(field), uint64(math.Round(v*by)))
		}
	})
}

// AddComputeProcess lets a process run kernels on a device, Draw lets it draw.
func (m *FakeMachine) AddComputeProcess(uuid string, p gpu.DeviceProcess) {
	m.addProcess(uuid, p, "compute")
}

// AddGraphicsProcess lets a process draw on a device.
func (m *FakeMachine) AddGraphicsProcess(uuid string, p gpu.DeviceProcess) {
	m.addProcess(uuid, p, "graphics")
}

func (m *FakeMachine) addProcess(uuid string, p gpu.DeviceProcess, how string) {
	m.t.Helper()
	m.changeState(func() {
		m.processes = append(m.processes, fmt.Sprintf("process %d %d %d %s", m.deviceIndex(uuid), p.PID, uint64(p.MemBytes), how))
	})
}

// ReportXID reports a critical error: of a slice, of a GPU, or, where no device has
// that UUID, of a device that NVML does not name.
func (m *FakeMachine) ReportXID(uuid string, xid uint64) { m.t.Helper(); m.addEvent(uuid, 8, xid) }

// ReportUncorrectedECC reports a memory error that could not be corrected.
func (m *FakeMachine) ReportUncorrectedECC(uuid string) { m.t.Helper(); m.addEvent(uuid, 2, 0) }

// ReportCorrectedECC reports a memory error that was.
func (m *FakeMachine) ReportCorrectedECC(uuid string) { m.t.Helper(); m.addEvent(uuid, 1, 0) }

// LoseGPU makes NVML say of a GPU that it is lost, its slices too.
func (m *FakeMachine) LoseGPU(uuid string) {
	m.t.Helper()
	m.changeState(func() { m.lost[uuid] = "lost" })
}

// LoseUntilRestart makes NVML say so, and keep to it after the GPU's Return until it is
// started anew.
func (m *FakeMachine) LoseUntilRestart(uuid string) {
	m.t.Helper()
	m.changeState(func() { m.lost[uuid] = "stuck" })
}

// ReturnGPU brings a lost GPU back.
func (m *FakeMachine) ReturnGPU(uuid string) {
	m.t.Helper()
	m.changeState(func() { delete(m.lost, uuid) })
}

// HangFunction makes a function of a GPU not return until Resume.
func (m *FakeMachine) HangFunction(uuid, function string) {
	m.t.Helper()
	m.changeState(func() { m.hangs = append(m.hangs, fmt.Sprintf("hang %s %d", function, m.deviceIndex(uuid))) })
}

// ResumeCalls lets all that hang return.
func (m *FakeMachine) ResumeCalls() {
	m.t.Helper()
	m.changeState(func() { m.hangs = nil })
}

// SetFailures replaces the functions that fail.
func (m *FakeMachine) SetFailures(fails ...FunctionFailure) {
	m.t.Helper()
	m.changeState(func() { m.fails = fails })
}

// UnplugGPU takes a GPU off the PCI bus: what is read there is all ones.
func (m *FakeMachine) UnplugGPU(uuid string) { m.writeConfig(uuid, "\xff\xff\xff\xff") }

// PlugGPU puts it back.
func (m *FakeMachine) PlugGPU(uuid string) { m.writeConfig(uuid, "\xde\x10\xb0\x20") }

func (m *FakeMachine) writeConfig(uuid, text string) {
	m.t.Helper()
	d := m.physicalGPUs[m.deviceIndex(uuid)]
	m.writeFile(filepath.Join(m.SysRoot, "bus/pci/devices", d.PCI, "config"), text)
}

// makeSys makes what sysfs has of each GPU, and of the NVSwitches.
func (m *FakeMachine) makeSys() {
	for _, d := range m.physicalGPUs {
		m.writeFile(filepath.Join(m.SysRoot, "bus/pci/devices", d.PCI, "numa_node"), fmt.Sprintf("%d\n", d.NUMA))
		m.PlugGPU(d.UUID)
	}
	for link := range maxLinks {
		m.writeFile(filepath.Join(m.SysRoot, fmt.Sprintf("bus/pci/devices/0000:%02x:00.0/class", 0xc4+link)), "0x068000\n")
	}
}

func (m *FakeMachine) makeProc() {
	text := "config 1\nmonitor 2\n"
	seen := map[string]bool{}
	for _, d := range m.migDevices {
		gi := fmt.Sprintf("gpu%d/gi%d/", d.Minor, d.MIG.GPUInstance)
		if !seen[gi] {
			text += fmt.Sprintf("%saccess %d\n", gi, d.MIG.GPUInstanceCap)
		}
		seen[gi] = true
		text += fmt.Sprintf("%sci%d/access %d\n", gi, d.MIG.ComputeInstance, d.MIG.ComputeInstanceCap)
	}
	if len(m.migDevices) > 0 {
		m.writeFile(filepath.Join(m.ProcRoot, "driver/nvidia-caps/mig-minors"), text)
	}
}

func (m *FakeMachine) writeFile(path, text string) {
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

package nvmltest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"

	"mesos-gpu/gpu"
)

// unitScale converts a field's unit to NVML's.
var unitScale = map[gpu.SampleField]float64{
	gpu.DutyRatio: 100, gpu.MemDutyRatio: 100,
	gpu.SMClockHertz: 1e-6, gpu.MemClockHertz: 1e-6,
	gpu.PowerWatts: 1e3, gpu.PowerLimitWatts: 1e3, gpu.EnergyJoules: 1e3,
	gpu.PCIeTxBytes: 1e-3, gpu.PCIeRxBytes: 1e-3,
	gpu.NVLinkTxBytes: 1.0 / 1024, gpu.NVLinkRxBytes: 1.0 / 1024,
}

// SetMeasurements sets the measurements of a device. Fields that were never set are not
// supported. gpu.MemTotalBytes is set from the device itself.
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

// AddComputeProcess adds a process that runs kernels on a device.
func (m *FakeMachine) AddComputeProcess(uuid string, p gpu.DeviceProcess) {
	m.addProcess(uuid, p, "compute")
}

// AddGraphicsProcess adds a process that draws on a device.
func (m *FakeMachine) AddGraphicsProcess(uuid string, p gpu.DeviceProcess) {
	m.addProcess(uuid, p, "graphics")
}

func (m *FakeMachine) addProcess(uuid string, p gpu.DeviceProcess, how string) {
	m.t.Helper()
	m.changeState(func() {
		m.processes = append(m.processes, fmt.Sprintf("process %d %d %d %s", m.deviceIndex(uuid), p.PID, uint64(p.MemBytes), how))
	})
}

// ReportXID reports a critical error of a MIG device or of a GPU. If no device has the UUID,
// NVML reports it without a device.
func (m *FakeMachine) ReportXID(uuid string, xid uint64) { m.t.Helper(); m.addEvent(uuid, 8, xid) }

// ReportUncorrectedECC reports a memory error that the device could not correct.
func (m *FakeMachine) ReportUncorrectedECC(uuid string) { m.t.Helper(); m.addEvent(uuid, 2, 0) }

// ReportCorrectedECC reports a memory error that the device corrected.
func (m *FakeMachine) ReportCorrectedECC(uuid string) { m.t.Helper(); m.addEvent(uuid, 1, 0) }

// LoseGPU makes NVML report a GPU, and its MIG devices, as lost.
func (m *FakeMachine) LoseGPU(uuid string) {
	m.t.Helper()
	m.changeState(func() { m.lost[uuid] = "lost" })
}

// LoseUntilRestart makes NVML report a GPU as lost until NVML is restarted after ReturnGPU.
func (m *FakeMachine) LoseUntilRestart(uuid string) {
	m.t.Helper()
	m.changeState(func() { m.lost[uuid] = "stuck" })
}

// ReturnGPU makes a lost GPU available again.
func (m *FakeMachine) ReturnGPU(uuid string) {
	m.t.Helper()
	m.changeState(func() { delete(m.lost, uuid) })
}

// HangFunction makes a function of a GPU hang until ResumeCalls.
func (m *FakeMachine) HangFunction(uuid, function string) {
	m.t.Helper()
	m.changeState(func() { m.hangs = append(m.hangs, fmt.Sprintf("hang %s %d", function, m.deviceIndex(uuid))) })
}

// ResumeCalls lets all hanging functions return.
func (m *FakeMachine) ResumeCalls() {
	m.t.Helper()
	m.changeState(func() { m.hangs = nil })
}

// SetFailures replaces the functions that fail.
func (m *FakeMachine) SetFailures(fails ...FunctionFailure) {
	m.t.Helper()
	m.changeState(func() { m.fails = fails })
}

// UnplugGPU removes a GPU from the PCI bus: reads of it return all ones.
func (m *FakeMachine) UnplugGPU(uuid string) { m.writeConfig(uuid, "\xff\xff\xff\xff") }

// PlugGPU puts a GPU back on the PCI bus.
func (m *FakeMachine) PlugGPU(uuid string) { m.writeConfig(uuid, "\xde\x10\xb0\x20") }

func (m *FakeMachine) writeConfig(uuid, text string) {
	m.t.Helper()
	d := m.physicalGPUs[m.deviceIndex(uuid)]
	m.writeFile(filepath.Join(m.SysRoot, "bus/pci/devices", d.PCI, "config"), text)
}

// makeSys makes sysfs's files of the GPUs and of the NVSwitches.
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

//go:build linux && cgo

package nvml

import (
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
)

// loadTimeout bounds how long other calls may keep NVML from being loaded.
const loadTimeout = 10 * time.Second

// DiscoverHost loads the library and describes the host. A GPU that cannot be described, for
// example because it has fallen off the bus, is in Host.Lost. A GPU in MIG mode is replaced by
// its MIG devices. It returns ErrNoDriver if there is no driver, and ErrNoAnswer if
// the driver hangs for longer than LibraryConfig.startTimeout.
func DiscoverHost(c LibraryConfig) (gpu.Host, error) {
	c = c.withDefaults()
	return startWithTimeout(c, "discover GPUs", discoverHost, func(gpu.Host) {})
}

func discoverHost(c LibraryConfig) (gpu.Host, error) {
	unlock, err := nvmlGate.enterAlone(loadTimeout)
	if err != nil {
		return gpu.Host{}, err
	}
	defer unlock()
	s, err := startSession(c)
	if err != nil {
		return gpu.Host{}, err
	}
	h, _, err := s.describeHost()
	if closing := s.stop(); err == nil {
		err = closing
	}
	return h, err
}

// physicalGPU is one GPU, in MIG mode with its MIG devices.
type physicalGPU struct {
	index  int
	handle nvml.Device
	device gpu.Device
	mig    bool
	slices []migDevice
}

type migDevice struct {
	handle nvml.Device
	device gpu.Device
}

// describeHost describes the host and returns the GPUs that can be described.
func (s *nvmlSession) describeHost() (gpu.Host, []physicalGPU, error) {
	driver, ret := s.SystemGetDriverVersion()
	if ret != nvml.SUCCESS {
		return gpu.Host{}, nil, fmt.Errorf("read the driver's version from NVML: %w", newNVMLError(ret))
	}
	cuda, ret := s.SystemGetCudaDriverVersion()
	if ret != nvml.SUCCESS {
		return gpu.Host{}, nil, fmt.Errorf("read the CUDA version from NVML: %w", newNVMLError(ret))
	}
	wholes, failures, err := s.describeGPUs()
	if err != nil {
		return gpu.Host{}, nil, err
	}
	h := gpu.Host{Driver: driver, CUDA: fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10), Lost: s.findLost(wholes, failures)}
	for _, w := range wholes {
		if !w.mig {
			h.Devices = append(h.Devices, w.device)
		}
		for _, slice := range w.slices {
			h.Devices = append(h.Devices, slice.device)
		}
	}
	s.cfg.Known = h.WithLost().Devices
	return h, wholes, nil
}

// describeGPUs describes every GPU that can be described, with its connections to the others, and
// returns why others cannot.
func (s *nvmlSession) describeGPUs() ([]physicalGPU, []describeFailure, error) {
	count, ret := s.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, nil, fmt.Errorf("read the number of GPUs from NVML: %w", newNVMLError(ret))
	}
	minors, err := readMinors(s.cfg.ProcRoot)
	if err != nil {
		s.cfg.Log.WithError(err).Warn("MIG devices left out")
	}
	var wholes []physicalGPU
	var failures []describeFailure
	for i := range count {
		w, err := s.describeGPU(i)
		if err != nil {
			s.cfg.Log.WithField("index", i).WithError(err).Warn("GPU left out")
			failures = append(failures, describeFailure{w.device.UUID, err})
			continue
		}
		if w.mig {
			w.slices = s.describeMIGDevices(w, minors)
		}
		wholes = append(wholes, w)
	}
	s.connectGPUs(wholes)
	return wholes, failures, nil
}

// describeGPU describes one GPU. With an error it returns the UUID, if that could be read.
func (s *nvmlSession) describeGPU(index int) (physicalGPU, error) {
	handle, ret := s.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return physicalGPU{}, fmt.Errorf("open GPU %d: %w", index, newNVMLError(ret))
	}
	uuid, ret := handle.GetUUID()
	if ret != nvml.SUCCESS {
		return physicalGPU{}, fmt.Errorf("read the UUID of GPU %d: %w", index, newNVMLError(ret))
	}
	failed := physicalGPU{device: gpu.Device{UUID: uuid}}
	model, ret := handle.GetName()
	if ret != nvml.SUCCESS {
		return failed, fmt.Errorf("read the name of GPU %s: %w", uuid, newNVMLError(ret))
	}
	minor, ret := handle.GetMinorNumber()
	if ret != nvml.SUCCESS {
		return failed, fmt.Errorf("read the minor number of GPU %s: %w", uuid, newNVMLError(ret))
	}
	memory, ret := handle.GetMemoryInfo()
	// A GPU that shares the host's memory reports none of its own.
	if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
		return failed, fmt.Errorf("read the memory of GPU %s: %w", uuid, newNVMLError(ret))
	}
	pci, ret := handle.GetPciInfo()
	if ret != nvml.SUCCESS {
		return failed, fmt.Errorf("read the PCI address of GPU %s: %w", uuid, newNVMLError(ret))
	}
	at := pciAddress(pci.Domain, pci.Bus, pci.Device)
	return physicalGPU{index: index, handle: handle, mig: s.inMIGMode(handle), device: gpu.Device{
		UUID: uuid, Model: model, Arch: s.computeCapability(handle), Brand: s.brandName(handle), MemMiB: int64(memory.Total >> 20),
		Minor: minor, PCI: at, NUMA: s.bus.numaNode(at), Persistence: s.hasPersistence(handle),
	}}, nil
}

func (s *nvmlSession) hasPersistence(handle nvml.Device) bool {
	if !s.has["nvmlDeviceGetPersistenceMode"] {
		return false
	}
	mode, ret := handle.GetPersistenceMode()
	return ret == nvml.SUCCESS && mode == nvml.FEATURE_ENABLED
}

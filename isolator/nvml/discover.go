//go:build linux && cgo

package nvml

import (
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
)

// startPatience is how long calls by others may keep NVML from being loaded.
const startPatience = 10 * time.Second

// Discover loads the library and describes the machine. A device that cannot
// be described, for example one that fell off the bus, is logged and left
// out: the others still serve. Of a GPU in MIG mode its MIG devices are
// listed in its stead. Returns ErrNoDriver where there is no driver, and
// ErrNoAnswer where that hangs for longer than Config.Starting.
func Discover(c Config) (gpu.Host, error) {
	c = c.withDefaults()
	return starting(c, "discover GPUs", discover, func(gpu.Host) {})
}

func discover(c Config) (gpu.Host, error) {
	unlock, err := one.alone(startPatience)
	if err != nil {
		return gpu.Host{}, err
	}
	defer unlock()
	s, err := start(c)
	if err != nil {
		return gpu.Host{}, err
	}
	h, _, err := s.host()
	if closing := s.stop(); err == nil {
		err = closing
	}
	return h, err
}

// whole is one GPU, in MIG mode with its slices.
type whole struct {
	index  int
	handle nvml.Device
	device gpu.Device
	mig    bool
	slices []slice
}

type slice struct {
	handle nvml.Device
	device gpu.Device
}

// host describes the machine, and gives the GPUs that could be described.
func (s *session) host() (gpu.Host, []whole, error) {
	driver, ret := s.SystemGetDriverVersion()
	if ret != nvml.SUCCESS {
		return gpu.Host{}, nil, fmt.Errorf("ask NVML for the driver's version: %w", fault(ret))
	}
	cuda, ret := s.SystemGetCudaDriverVersion()
	if ret != nvml.SUCCESS {
		return gpu.Host{}, nil, fmt.Errorf("ask NVML for the CUDA version: %w", fault(ret))
	}
	wholes, err := s.wholes()
	if err != nil {
		return gpu.Host{}, nil, err
	}
	h := gpu.Host{Driver: driver, CUDA: fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10)}
	for _, w := range wholes {
		if !w.mig {
			h.Devices = append(h.Devices, w.device)
		}
		for _, slice := range w.slices {
			h.Devices = append(h.Devices, slice.device)
		}
	}
	return h, wholes, nil
}

// wholes describes every GPU that can be, with what joins it to the others.
func (s *session) wholes() ([]whole, error) {
	count, ret := s.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("ask NVML for the number of GPUs: %w", fault(ret))
	}
	minors, err := readMinors(s.c.ProcRoot)
	if err != nil {
		s.c.Log.WithError(err).Warn("MIG devices left out")
	}
	var wholes []whole
	for i := range count {
		w, err := s.whole(i)
		if err != nil {
			s.c.Log.WithField("index", i).WithError(err).Warn("GPU left out")
			continue
		}
		if w.mig {
			w.slices = s.slices(w, minors)
		}
		wholes = append(wholes, w)
	}
	s.join(wholes)
	return wholes, nil
}

func (s *session) whole(index int) (whole, error) {
	handle, ret := s.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return whole{}, fmt.Errorf("open GPU %d: %w", index, fault(ret))
	}
	uuid, ret := handle.GetUUID()
	if ret != nvml.SUCCESS {
		return whole{}, fmt.Errorf("ask GPU %d for its UUID: %w", index, fault(ret))
	}
	model, ret := handle.GetName()
	if ret != nvml.SUCCESS {
		return whole{}, fmt.Errorf("ask GPU %s for its name: %w", uuid, fault(ret))
	}
	minor, ret := handle.GetMinorNumber()
	if ret != nvml.SUCCESS {
		return whole{}, fmt.Errorf("ask GPU %s for its minor number: %w", uuid, fault(ret))
	}
	memory, ret := handle.GetMemoryInfo()
	// A GPU that shares the host's memory has none of its own to tell of.
	if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
		return whole{}, fmt.Errorf("ask GPU %s for its memory: %w", uuid, fault(ret))
	}
	pci, ret := handle.GetPciInfo()
	if ret != nvml.SUCCESS {
		return whole{}, fmt.Errorf("ask GPU %s for its PCI address: %w", uuid, fault(ret))
	}
	at := address(pci.Domain, pci.Bus, pci.Device)
	return whole{index: index, handle: handle, mig: s.inMIGMode(handle), device: gpu.Device{
		UUID: uuid, Model: model, Arch: s.arch(handle), Brand: s.brand(handle), MemMiB: int64(memory.Total >> 20),
		Minor: minor, PCI: at, NUMA: s.bus.numaNode(at), Persistence: s.persists(handle),
	}}, nil
}

func (s *session) persists(handle nvml.Device) bool {
	if !s.has["nvmlDeviceGetPersistenceMode"] {
		return false
	}
	mode, ret := handle.GetPersistenceMode()
	return ret == nvml.SUCCESS && mode == nvml.FEATURE_ENABLED
}

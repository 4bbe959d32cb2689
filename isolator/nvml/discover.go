//go:build linux && cgo

package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
)

// one guards go-nvml's loading: it keeps which versions of NVML's functions
// the library has in package variables.
var one sync.Mutex

// called lists what Discover calls. The loader binds late, so that a function
// an old library lacks would end the process at its first call; they are
// looked up before.
var called = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString",
	"nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion",
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMinorNumber",
	"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPciInfo_v3",
}

// Discover loads the library and describes the machine. A device that cannot
// be described, for example one that fell off the bus, is logged and left
// out: the others still serve. Returns ErrNoDriver where there is no driver.
func Discover(c Config) (gpu.Host, error) {
	c = c.withDefaults()
	one.Lock()
	defer one.Unlock()
	if err := probe(c.Library); err != nil {
		return gpu.Host{}, err
	}
	lib := nvml.New(nvml.WithLibraryPath(c.Library))
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIBRARY_NOT_FOUND:
		return gpu.Host{}, fmt.Errorf("start %s: %w: %s", c.Library, ErrNoDriver, describe(lib, ret))
	default:
		return gpu.Host{}, fmt.Errorf("start %s: %s", c.Library, describe(lib, ret))
	}
	h, err := host(lib, c)
	if ret := lib.Shutdown(); err == nil && ret != nvml.SUCCESS {
		err = fmt.Errorf("shut down NVML: %s", describe(lib, ret))
	}
	return h, err
}

// probe tells why the library cannot be used, which go-nvml does not.
func probe(library string) error {
	so := dl.New(library, dl.RTLD_LAZY)
	if err := so.Open(); err != nil {
		return fmt.Errorf("load %s: %w: %s", library, ErrNoDriver, oneLine(err.Error()))
	}
	for _, name := range called {
		if so.Lookup(name) != nil {
			_ = so.Close()
			return fmt.Errorf("load %s: it lacks %s; update the NVIDIA driver to 390 or later", library, name)
		}
	}
	if err := so.Close(); err != nil {
		return fmt.Errorf("close %s: %w", library, err)
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// describe gives NVML's own words and its number.
func describe(lib nvml.Interface, ret nvml.Return) string {
	return fmt.Sprintf("%s (NVML error %d)", oneLine(lib.ErrorString(ret)), int(ret))
}

func host(lib nvml.Interface, c Config) (gpu.Host, error) {
	driver, ret := lib.SystemGetDriverVersion()
	if ret != nvml.SUCCESS {
		return gpu.Host{}, fmt.Errorf("ask NVML for the driver's version: %s", describe(lib, ret))
	}
	cuda, ret := lib.SystemGetCudaDriverVersion()
	if ret != nvml.SUCCESS {
		return gpu.Host{}, fmt.Errorf("ask NVML for the CUDA version: %s", describe(lib, ret))
	}
	count, ret := lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return gpu.Host{}, fmt.Errorf("ask NVML for the number of GPUs: %s", describe(lib, ret))
	}
	h := gpu.Host{Driver: driver, CUDA: fmt.Sprintf("%d.%d", cuda/1000, cuda%1000/10)}
	for i := range count {
		d, err := device(lib, i, c.SysRoot)
		if err != nil {
			c.Log.WithField("index", i).WithError(err).Warn("GPU left out")
			continue
		}
		h.Devices = append(h.Devices, d)
	}
	return h, nil
}

func device(lib nvml.Interface, index int, sysRoot string) (gpu.Device, error) {
	handle, ret := lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("open GPU %d: %s", index, describe(lib, ret))
	}
	uuid, ret := handle.GetUUID()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("ask GPU %d for its UUID: %s", index, describe(lib, ret))
	}
	model, ret := handle.GetName()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("ask GPU %s for its name: %s", uuid, describe(lib, ret))
	}
	minor, ret := handle.GetMinorNumber()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("ask GPU %s for its minor number: %s", uuid, describe(lib, ret))
	}
	memory, ret := handle.GetMemoryInfo()
	// A GPU that shares the host's memory has none of its own to tell of.
	if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
		return gpu.Device{}, fmt.Errorf("ask GPU %s for its memory: %s", uuid, describe(lib, ret))
	}
	pci, ret := handle.GetPciInfo()
	if ret != nvml.SUCCESS {
		return gpu.Device{}, fmt.Errorf("ask GPU %s for its PCI address: %s", uuid, describe(lib, ret))
	}
	address := fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	return gpu.Device{
		UUID: uuid, Model: model, MemMiB: int64(memory.Total >> 20), Minor: minor,
		PCI: address, NUMA: numaNode(sysRoot, address),
	}, nil
}

// numaNode asks sysfs. -1 is the kernel's own word for "unknown".
func numaNode(sysRoot, address string) int {
	text, err := os.ReadFile(filepath.Join(sysRoot, "bus/pci/devices", address, "numa_node"))
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return -1
	}
	return node
}

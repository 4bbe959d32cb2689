//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// one guards go-nvml's loading: it keeps which versions of NVML's functions
// the library has in package variables. Who calls NVML is inside.
var one gate

// called lists what every driver since 390 has, and nothing works without.
// The loader binds late, so that a function an old library lacks would end
// the process at its first call; they are looked up before.
var called = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString",
	"nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion",
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMinorNumber",
	"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPciInfo_v3",
}

// optional lists what is called only where the library has it.
var optional = []string{
	"nvmlDeviceGetPersistenceMode", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetBrand",
	"nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemoteDeviceType",
	"nvmlDeviceGetTopologyCommonAncestor",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
	"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId",
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetClockInfo", "nvmlDeviceGetTemperature",
	"nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTotalEnergyConsumption",
	"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows",
	"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
	"nvmlDeviceGetPcieThroughput", "nvmlDeviceGetFieldValues",
	"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses",
	"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait",
	"nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
	"nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "nvmlDeviceGetGpuInstances", "nvmlGpuInstanceGetInfo",
	"nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceDestroy", "nvmlGpuInstanceGetComputeInstanceProfileInfo",
	"nvmlGpuInstanceCreateComputeInstance", "nvmlGpuInstanceGetComputeInstances", "nvmlComputeInstanceDestroy",
}

// session is the library, loaded and started.
type session struct {
	nvml.Interface
	c   Config
	bus bus
	has map[string]bool // of optional
}

// start loads the library. The caller is alone in one.
func start(c Config) (*session, error) {
	has, err := probe(c.Library)
	if err != nil {
		return nil, err
	}
	s := &session{Interface: nvml.New(nvml.WithLibraryPath(c.Library)), c: c, bus: bus{c.SysRoot}, has: has}
	switch ret := s.Init(); ret {
	case nvml.SUCCESS:
		return s, nil
	case nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf("start %s: %w: %s", c.Library, ErrNoDriver, fault(ret))
	default:
		return nil, fmt.Errorf("start %s: %w", c.Library, fault(ret))
	}
}

// stop is start undone. The caller is alone in one.
func (s *session) stop() error {
	if ret := s.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut down NVML: %w", fault(ret))
	}
	return nil
}

// probe tells why the library cannot be used, which go-nvml does not, and
// which optional functions it has.
func probe(library string) (has map[string]bool, err error) {
	so := dl.New(library, dl.RTLD_LAZY)
	if err := so.Open(); err != nil {
		return nil, fmt.Errorf("load %s: %w: %s", library, ErrNoDriver, oneLine(err.Error()))
	}
	defer func() {
		if closing := so.Close(); closing != nil && err == nil {
			err = fmt.Errorf("close %s: %w", library, closing)
		}
	}()
	for _, name := range called {
		if so.Lookup(name) != nil {
			return nil, fmt.Errorf("load %s: it lacks %s; update the NVIDIA driver to 390 or later", library, name)
		}
	}
	has = map[string]bool{}
	for _, name := range optional {
		has[name] = so.Lookup(name) == nil
	}
	return has, nil
}

func (s *session) hasAll(names ...string) bool {
	for _, name := range names {
		if !s.has[name] {
			return false
		}
	}
	return true
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// failed is what NVML returned, in its own words and number.
type failed struct {
	text string
	ret  nvml.Return
}

func fault(ret nvml.Return) error {
	return failed{fmt.Sprintf("%s (NVML error %d)", oneLine(ret.Error()), int(ret)), ret}
}

func (f failed) Error() string { return f.text }

// Is sorts NVML's numbers under the package's errors.
func (f failed) Is(target error) bool {
	switch f.ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		return target == ErrLost
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED:
		return target == ErrNoDriver
	default:
		return false
	}
}

// final reports whether no other question to the device is worth asking.
func final(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrNoDriver) }

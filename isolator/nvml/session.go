//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// nvmlGate guards go-nvml's loading: it keeps which versions of NVML's functions
// the library has in package variables. Who calls NVML is inside.
var nvmlGate callGate

// requiredFunctions lists what every driver since 390 has, and nothing works without.
// The loader binds late, so that a function an old library lacks would end
// the process at its first call; they are looked up before.
var requiredFunctions = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString",
	"nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion",
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMinorNumber",
	"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPciInfo_v3",
}

// optionalFunctions lists what is called only where the library has it.
var optionalFunctions = []string{
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

// nvmlSession is the library, loaded and started.
type nvmlSession struct {
	nvml.Interface
	cfg LibraryConfig
	bus pciBus
	has map[string]bool // of optional
}

// startSession loads the library. The caller is alone in one.
func startSession(c LibraryConfig) (*nvmlSession, error) {
	has, err := probeLibrary(c.Library)
	if err != nil {
		return nil, err
	}
	s := &nvmlSession{Interface: nvml.New(nvml.WithLibraryPath(c.Library)), cfg: c, bus: pciBus{c.SysRoot}, has: has}
	switch ret := s.Init(); ret {
	case nvml.SUCCESS:
		return s, nil
	case nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf("start %s: %w: %s", c.Library, ErrNoDriver, newNVMLError(ret))
	default:
		return nil, fmt.Errorf("start %s: %w", c.Library, newNVMLError(ret))
	}
}

// stop is start undone. The caller is alone in one.
func (s *nvmlSession) stop() error {
	if ret := s.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut down NVML: %w", newNVMLError(ret))
	}
	return nil
}

// probeLibrary tells why the library cannot be used, which go-nvml does not, and
// which optional functions it has.
func probeLibrary(library string) (has map[string]bool, err error) {
	so := dl.New(library, dl.RTLD_LAZY)
	if err := so.Open(); err != nil {
		return nil, fmt.Errorf("load %s: %w: %s", library, ErrNoDriver, oneLine(err.Error()))
	}
	defer func() {
		if closing := so.Close(); closing != nil && err == nil {
			err = fmt.Errorf("close %s: %w", library, closing)
		}
	}()
	for _, name := range requiredFunctions {
		if so.Lookup(name) != nil {
			return nil, fmt.Errorf("load %s: it lacks %s; update the NVIDIA driver to 390 or later", library, name)
		}
	}
	has = map[string]bool{}
	for _, name := range optionalFunctions {
		has[name] = so.Lookup(name) == nil
	}
	return has, nil
}

func (s *nvmlSession) hasAll(names ...string) bool {
	for _, name := range names {
		if !s.has[name] {
			return false
		}
	}
	return true
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// nvmlError is what NVML returned, in its own words and number.
type nvmlError struct {
	text string
	ret  nvml.Return
}

func newNVMLError(ret nvml.Return) error {
	return nvmlError{fmt.Sprintf("%s (NVML error %d)", oneLine(ret.Error()), int(ret)), ret}
}

func (f nvmlError) Error() string { return f.text }

// Is sorts NVML's numbers under the package's errors.
func (f nvmlError) Is(target error) bool {
	switch f.ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		return target == ErrLost
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED:
		return target == ErrNoDriver
	default:
		return false
	}
}

// isFinal reports whether no other question to the device is worth asking.
func isFinal(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrNoDriver) }

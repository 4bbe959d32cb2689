//go:build linux && cgo

package nvml

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/internal/elffile"
	"mesos-gpu/internal/ldcache"
)

// nvmlGate guards go-nvml's loading of the library: it keeps the versions of NVML's functions
// in package variables. A caller of NVML enters it.
var nvmlGate callGate

// requiredFunctions are functions that every driver since 390 has and that are always needed.
// The loader binds lazily, so a missing function would end the process at its first call. They
// are looked up before.
var requiredFunctions = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString",
	"nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion",
	"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMinorNumber",
	"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetPciInfo_v3",
}

// optionalFunctions are called only if the library has them.
var optionalFunctions = []string{
	"nvmlDeviceGetPersistenceMode", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetBrand",
	"nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemoteDeviceType",
	"nvmlDeviceGetTopologyCommonAncestor",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
	"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId",
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetClockInfo", "nvmlDeviceGetTemperature",
	"nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetTotalEnergyConsumption",
	"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetGpuFabricInfo",
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

// startSession loads the library. The caller holds nvmlGate alone.
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

// stop undoes startSession. The caller holds nvmlGate alone.
func (s *nvmlSession) stop() error {
	if ret := s.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut down NVML: %w", newNVMLError(ret))
	}
	return nil
}

// probeLibrary returns which optional functions the library has, or why it cannot be used,
// which go-nvml does not report.
func probeLibrary(library string) (has map[string]bool, err error) {
	if err := checkWhole(library); err != nil {
		return nil, err
	}
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

// checkWhole returns an error if the file that the loader finds under that name is truncated. To
// load it would end the process with SIGBUS.
func checkWhole(library string) error {
	path := findLibrary(library)
	if path == "" {
		return nil // the loader reports that
	}
	f, err := elffile.Open(path)
	if errors.Is(err, elffile.ErrTruncated) {
		return fmt.Errorf("load %s: %w: %s: %w; reinstall the driver", library, ErrNoDriver, path, err)
	}
	if err == nil {
		f.Close()
	}
	return nil
}

// findLibrary returns the file that the loader finds for a name: in LD_LIBRARY_PATH, its cache or
// its own folders. It returns "" if it knows none.
func findLibrary(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	isNative := func(path string) bool {
		f, err := elffile.Open(path)
		if err == nil {
			defer f.Close()
			return f.Machine == elffile.HostMachine(elf.ELFCLASS64)
		}
		return errors.Is(err, elffile.ErrTruncated)
	}
	var paths []string
	for _, dir := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
		paths = append(paths, filepath.Join(dir, name))
	}
	if text, err := os.ReadFile("/etc/ld.so.cache"); err == nil {
		entries, _ := ldcache.Parse(text) // the loader ignores a damaged one, too
		for _, e := range entries {
			if e.Name == name {
				paths = append(paths, e.Path)
			}
		}
	}
	for _, dir := range []string{"/lib64", "/usr/lib64", "/lib", "/usr/lib"} {
		paths = append(paths, filepath.Join(dir, name))
	}
	for _, path := range paths {
		if isNative(path) {
			return path
		}
	}
	return ""
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

// nvmlError is an error of NVML, with NVML's text and number.
type nvmlError struct {
	text string
	ret  nvml.Return
}

func newNVMLError(ret nvml.Return) error {
	text := fmt.Sprintf("%s (NVML error %d)", oneLine(ret.Error()), int(ret))
	switch ret {
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		text += ": the driver's libraries are of another version than the kernel module that is loaded, as after an upgrade: " +
			"restart the machine, or unload and load the module"
	case nvml.ERROR_DRIVER_NOT_LOADED:
		text += ": the driver's libraries are installed, its kernel module is not loaded: load it (modprobe nvidia)"
	}
	return nvmlError{text, ret}
}

func (e nvmlError) Error() string { return e.text }

// Is maps NVML's numbers to the package's errors.
func (e nvmlError) Is(target error) bool {
	switch e.ret {
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		return target == ErrLost
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED:
		return target == ErrNoDriver
	default:
		return false
	}
}

// isFinal reports whether other calls for the device would fail, too.
func isFinal(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrNoDriver) }

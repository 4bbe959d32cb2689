// Package image reads what a container image needs from the GPU driver, and
// decides whether a host provides it. It is pure: labels, environment and a
// description of the host go in; the needs, or one error that names what was
// required and what was found, come out. It never opens an image, a driver or
// a device, and no image can give itself a device.
package image

import (
	"slices"
	"strings"
)

// The labels of nvidia-docker 1.0. volumesLabel lists the volumes that an
// image needs, separated by blanks; driverVolume is the driver's name in it.
// cudaLabel is the image's CUDA version.
const (
	volumesLabel = "com.nvidia.volumes.needed"
	driverVolume = "nvidia_driver"
	cudaLabel    = "com.nvidia.cuda.version"
)

// The variables of NVIDIA's container toolkit.
const (
	envVisibleDevices     = "NVIDIA_VISIBLE_DEVICES"
	envDriverCapabilities = "NVIDIA_DRIVER_CAPABILITIES"
	envRequirePrefix      = "NVIDIA_REQUIRE_"
	envRequireCUDA        = envRequirePrefix + "CUDA"
	// envRequireJetpack starts the names of variables about Tegra's file
	// lists, which are not requirements.
	envRequireJetpack = envRequirePrefix + "JETPACK"
	envDisableRequire = "NVIDIA_DISABLE_REQUIRE"
	// CUDA images older than envRequireCUDA set only envCUDAVersion.
	envCUDAVersion = "CUDA_VERSION"
)

// DriverRequest contains an image's requirements for the GPU driver.
type DriverRequest struct {
	// Devices is the value of NVIDIA_VISIBLE_DEVICES, or its equivalent for
	// images that express the same by labels. It does not choose devices: a
	// container gets the devices that its task was granted. If it is void, the
	// image needs nothing and all other fields are empty.
	Devices VisibleDevices
	// Capabilities are the parts of the driver that the image uses.
	Capabilities Capabilities
	// Requirements must all hold. They are sorted by the names of their
	// variables.
	Requirements []Requirement
}

// NeedsDriver reports whether containers of the image get the driver's files.
func (d DriverRequest) NeedsDriver() bool { return d.Devices.NeedsDriver() }

// Examine reads what an image needs and checks it against the host. imageEnv
// has "NAME=value" entries. jobEnv has the job's variables, which replace the
// image's as they do in the container, except NVIDIA_VISIBLE_DEVICES: jobs do
// not choose devices by it. The error is an *IncompatibleError if the image
// cannot run on this host but may run on another one. Any other error names a
// label or variable that is malformed for every host.
func Examine(labels map[string]string, imageEnv []string, jobEnv map[string]string, h HostDriver) (DriverRequest, error) {
	vars := parseEnvironment(imageEnv)
	for name, value := range jobEnv {
		if name != envVisibleDevices {
			vars[name] = value
		}
	}
	request, err := parseRequest(labels, vars)
	if err != nil {
		return DriverRequest{}, &UnreadableError{err}
	}
	return request, request.CheckHost(h)
}

func parseRequest(labels map[string]string, vars imageVariables) (DriverRequest, error) {
	request := DriverRequest{Devices: parseImageDevices(labels, vars)}
	if !request.NeedsDriver() {
		return request, nil
	}
	var err error
	if request.Capabilities, err = parseImageCapabilities(vars); err != nil {
		return DriverRequest{}, err
	}
	if request.Requirements, err = listRequirements(labels, vars); err != nil {
		return DriverRequest{}, err
	}
	return request, nil
}

// parseImageDevices reads NVIDIA_VISIBLE_DEVICES, which has precedence over
// the labels. Images that are older than the container toolkit and need the
// driver get all devices.
func parseImageDevices(labels map[string]string, vars imageVariables) VisibleDevices {
	value, set := vars[envVisibleDevices]
	switch {
	case set:
		return ParseDevices(value)
	case vars.isLegacyCUDA(), slices.Contains(strings.Fields(labels[volumesLabel]), driverVolume):
		return VisibleDevices{AllDevices}
	default:
		return VisibleDevices{VoidDevices}
	}
}

func parseImageCapabilities(vars imageVariables) (Capabilities, error) {
	value, set := vars[envDriverCapabilities]
	if !set && vars.isLegacyCUDA() {
		return AllCapabilities(), nil
	}
	return ParseCapabilities(value)
}

// imageVariables is an image's environment by name.
type imageVariables map[string]string

// parseEnvironment keeps the first of several entries for a name, as getenv
// does, and ignores entries without a value.
func parseEnvironment(env []string) imageVariables {
	vars := imageVariables{}
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if _, twice := vars[name]; ok && !twice {
			vars[name] = value
		}
	}
	return vars
}

// isLegacyCUDA reports whether the image is a CUDA image older than
// NVIDIA_REQUIRE_CUDA.
func (v imageVariables) isLegacyCUDA() bool {
	return v[envCUDAVersion] != "" && v[envRequireCUDA] == ""
}

// Package image reads what a container image asks of the HostGPU driver, and
// decides whether a host meets it. It is pure: labels, environment and what
// is known of the host go in; an answer or one error that says what was asked
// and what there is comes out. It never opens an image, a driver or a device,
// and nothing that an image says gives it a device.
package image

import (
	"slices"
	"strings"
)

// The labels of nvidia-docker 1.0. volumesLabel lists the volumes that an
// image needs, parted by blanks; driverVolume is the driver's name there.
// cudaLabel is the CUDA version that the image brings.
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
	// envRequireJetpack begins variables about Tegra's file lists, which are no
	// requirements.
	envRequireJetpack = envRequirePrefix + "JETPACK"
	envDisableRequire = "NVIDIA_DISABLE_REQUIRE"
	// envCUDAVersion alone is what CUDA images had before there was envRequireCUDA.
	envCUDAVersion = "CUDA_VERSION"
)

// DriverRequest is what an image asks of the HostGPU driver.
type DriverRequest struct {
	// Devices is what NVIDIA_VISIBLE_DEVICES says, or would say in an image
	// that says the same otherwise. It informs: the devices of a container
	// are those that its task was granted. Where it is void the image asks
	// for nothing and all else is empty.
	Devices VisibleDevices
	// Capabilities are the parts of the driver that the image uses.
	Capabilities Capabilities
	// Requirements must all hold. They are in order of the names that make
	// them.
	Requirements []Requirement
}

// NeedsDriver tells that containers of the image get the driver's files.
func (a DriverRequest) NeedsDriver() bool { return a.Devices.NeedsDriver() }

// Examine reads what an image asks for and checks it against the host. The
// environments are "NAME=value" entries of the image and variables of the job,
// which stand above the image's as they will in the container; only
// NVIDIA_VISIBLE_DEVICES is the image's alone, since jobs do not choose
// devices by it. The error is an *Unfit where the image cannot run on this
// host and might on another; any other says which label or variable cannot be
// understood, by any host.
func Examine(labels map[string]string, imageEnv []string, jobEnv map[string]string, h HostDriver) (DriverRequest, error) {
	vars := parseEnvironment(imageEnv)
	for name, value := range jobEnv {
		if name != envVisibleDevices {
			vars[name] = value
		}
	}
	ask, err := parseRequest(labels, vars)
	if err != nil {
		return DriverRequest{}, err
	}
	return ask, ask.CheckHost(h)
}

func parseRequest(labels map[string]string, vars imageVariables) (DriverRequest, error) {
	ask := DriverRequest{Devices: parseImageDevices(labels, vars)}
	if !ask.NeedsDriver() {
		return ask, nil
	}
	var err error
	if ask.Capabilities, err = parseImageCapabilities(vars); err != nil {
		return DriverRequest{}, err
	}
	if ask.Requirements, err = listRequirements(labels, vars); err != nil {
		return DriverRequest{}, err
	}
	return ask, nil
}

// parseImageDevices hears NVIDIA_VISIBLE_DEVICES first: what it says stands, whatever
// the labels say. Without it, images from before the toolkit want all.
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

// imageVariables are an image's environment by name.
type imageVariables map[string]string

// parseEnvironment takes the first of several entries for a name, as getenv does, and
// none without a value.
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

// isLegacyCUDA tells a CUDA image from before NVIDIA_REQUIRE_CUDA.
func (v imageVariables) isLegacyCUDA() bool {
	return v[envCUDAVersion] != "" && v[envRequireCUDA] == ""
}

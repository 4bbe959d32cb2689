// Package image reads what a container image asks of the GPU driver, and
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
	visibleDevices     = "NVIDIA_VISIBLE_DEVICES"
	driverCapabilities = "NVIDIA_DRIVER_CAPABILITIES"
	requirePrefix      = "NVIDIA_REQUIRE_"
	requireCUDA        = requirePrefix + "CUDA"
	// requireJetpack begins variables about Tegra's file lists, which are no
	// requirements.
	requireJetpack = requirePrefix + "JETPACK"
	disableRequire = "NVIDIA_DISABLE_REQUIRE"
	// cudaVersion alone is what CUDA images had before there was requireCUDA.
	cudaVersion = "CUDA_VERSION"
)

// Ask is what an image asks of the GPU driver.
type Ask struct {
	// Devices is what NVIDIA_VISIBLE_DEVICES says, or would say in an image
	// that says the same otherwise. It informs: the devices of a container
	// are those that its task was granted. Where it is void the image asks
	// for nothing and all else is empty.
	Devices Devices
	// Capabilities are the parts of the driver that the image uses.
	Capabilities Capabilities
	// Requirements must all hold. They are in order of the names that make
	// them.
	Requirements []Requirement
}

// Driver tells that containers of the image get the driver's files.
func (a Ask) Driver() bool { return a.Devices.Driver() }

// Examine reads what an image asks for and checks it against the host. The
// environments are "NAME=value" entries of the image and variables of the job,
// which stand above the image's as they will in the container; only
// NVIDIA_VISIBLE_DEVICES is the image's alone, since jobs do not choose
// devices by it. The error is an *Unfit where the image cannot run on this
// host and might on another; any other says which label or variable cannot be
// understood, by any host.
func Examine(labels map[string]string, imageEnv []string, jobEnv map[string]string, h Host) (Ask, error) {
	vars := read(imageEnv)
	for name, value := range jobEnv {
		if name != visibleDevices {
			vars[name] = value
		}
	}
	ask, err := asked(labels, vars)
	if err != nil {
		return Ask{}, err
	}
	return ask, ask.Check(h)
}

func asked(labels map[string]string, vars variables) (Ask, error) {
	ask := Ask{Devices: devices(labels, vars)}
	if !ask.Driver() {
		return ask, nil
	}
	var err error
	if ask.Capabilities, err = capabilities(vars); err != nil {
		return Ask{}, err
	}
	if ask.Requirements, err = requirements(labels, vars); err != nil {
		return Ask{}, err
	}
	return ask, nil
}

// devices hears NVIDIA_VISIBLE_DEVICES first: what it says stands, whatever
// the labels say. Without it, images from before the toolkit want all.
func devices(labels map[string]string, vars variables) Devices {
	value, set := vars[visibleDevices]
	switch {
	case set:
		return ParseDevices(value)
	case vars.legacy(), slices.Contains(strings.Fields(labels[volumesLabel]), driverVolume):
		return Devices{AllDevices}
	default:
		return Devices{VoidDevices}
	}
}

func capabilities(vars variables) (Capabilities, error) {
	value, set := vars[driverCapabilities]
	if !set && vars.legacy() {
		return AllCapabilities(), nil
	}
	return ParseCapabilities(value)
}

// variables are an image's environment by name.
type variables map[string]string

// read takes the first of several entries for a name, as getenv does, and
// none without a value.
func read(env []string) variables {
	vars := variables{}
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if _, twice := vars[name]; ok && !twice {
			vars[name] = value
		}
	}
	return vars
}

// legacy tells a CUDA image from before NVIDIA_REQUIRE_CUDA.
func (v variables) legacy() bool { return v[cudaVersion] != "" && v[requireCUDA] == "" }

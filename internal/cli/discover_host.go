package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/simulated"
)

// DiscoverHost discovers this machine's GPUs, or returns the simulated host that
// simulate describes if it is not empty. Of known, the devices that the machine had
// before, those that the driver cannot describe are reported as lost.
func DiscoverHost(simulate string, known ...gpu.Device) (gpu.Host, error) {
	if simulate == "" {
		host, err := nvml.DiscoverHost(nvml.LibraryConfig{Known: known})
		return host, AdviseSimulation(err)
	}
	name, err := hostname()
	if err != nil {
		return gpu.Host{}, err
	}
	return simulated.NewHost(simulate, name)
}

// AdviseSimulation adds what to do without a driver to an error of a command with --simulate.
func AdviseSimulation(err error) error {
	if errors.Is(err, nvml.ErrNoDriver) {
		return fmt.Errorf("%w: install the driver, or give --simulate 2xV100", err)
	}
	return err
}

// SimulateHosts returns the simulated hosts that spec describes, as in
// 2x4xV100,1x8xA100.
func SimulateHosts(spec string) ([]gpu.Host, error) {
	name, err := hostname()
	if err != nil {
		return nil, err
	}
	return simulated.NewHosts(spec, name)
}

func hostname() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name this host: %w", err)
	}
	return name, nil
}

// GlobPaths returns the paths on this machine that match a pattern.
func GlobPaths(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // an error means a bad pattern
	return paths
}

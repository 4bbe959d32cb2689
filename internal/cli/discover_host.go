package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/simulated"
)

// DiscoverHost finds this machine's GPUs, or makes up what simulate asks for.
func DiscoverHost(simulate string) (gpu.Host, error) {
	if simulate == "" {
		return nvml.DiscoverHost(nvml.LibraryConfig{})
	}
	name, err := os.Hostname()
	if err != nil {
		return gpu.Host{}, fmt.Errorf("name this host: %w", err)
	}
	return simulated.NewHost(simulate, name)
}

// GlobPaths gives the paths that a pattern finds on this machine.
func GlobPaths(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // an error means a bad pattern
	return paths
}

package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/simulated"
)

// DiscoverHost discovers this machine's GPUs, or returns the simulated host that
// simulate describes if it is not empty.
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

// GlobPaths returns the paths on this machine that match a pattern.
func GlobPaths(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // an error means a bad pattern
	return paths
}

//go:build !linux || !cgo

package nvml

import (
	"fmt"

	"mesos-gpu/gpu"
)

// Discover needs cgo to load the library: a binary built without it
// (CGO_ENABLED=0) serves simulated hosts and returns ErrNoDriver here.
func Discover(c Config) (gpu.Host, error) {
	return gpu.Host{}, fmt.Errorf("load %s: %w: this binary was built without cgo; build it with CGO_ENABLED=1",
		c.withDefaults().Library, ErrNoDriver)
}

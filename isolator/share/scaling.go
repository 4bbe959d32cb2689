package share

import (
	"fmt"
	"math"

	"mesos-gpu/gpu"
)

// maxScaling bounds the factors.
const maxScaling = 10

// ShareScaling has the factors by which a shared device is advertised. 1
// advertises what exists; more overcommits it, for tasks that do not use their
// shares at the same time.
type ShareScaling struct{ Memory, Cores float64 }

// Validate returns an error for a factor out of range.
func (s ShareScaling) Validate() error {
	for name, f := range map[string]float64{"memory": s.Memory, "cores": s.Cores} {
		if !(f >= 1 && f <= maxScaling) { // a NaN fails both comparisons
			return fmt.Errorf("scaling of %s is %v: give 1 to %d", name, f, maxScaling)
		}
	}
	return nil
}

// ScaledShare returns what is advertised of a shared device.
func (s ShareScaling) ScaledShare(d gpu.Device) gpu.DeviceShare {
	return gpu.DeviceShare{UUID: d.UUID, MemMiB: int64(math.Round(float64(d.MemMiB) * s.Memory)), Cores: int(math.Round(gpu.AllCores * s.Cores))}
}

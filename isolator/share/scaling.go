package share

import (
	"fmt"
	"math"

	"mesos-gpu/gpu"
)

// maxScaling bounds what a device may be advertised as.
const maxScaling = 10

// ShareScaling tells as how much of itself a shared device is advertised: 1 is what
// there is, and more lets tasks together ask for what they do not use at once.
type ShareScaling struct{ Memory, Cores float64 }

// Validate names the factor that is out of bounds.
func (s ShareScaling) Validate() error {
	for name, f := range map[string]float64{"memory": s.Memory, "cores": s.Cores} {
		if !(f >= 1 && f <= maxScaling) { // a NaN is neither
			return fmt.Errorf("scaling of %s is %v: give 1 to %d", name, f, maxScaling)
		}
	}
	return nil
}

// ScaledShare is what is advertised of a shared device.
func (s ShareScaling) ScaledShare(d gpu.Device) gpu.DeviceShare {
	return gpu.DeviceShare{UUID: d.UUID, MemMiB: int64(math.Round(float64(d.MemMiB) * s.Memory)), Cores: int(math.Round(gpu.AllCores * s.Cores))}
}

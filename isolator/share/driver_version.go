package share

import (
	"fmt"
	"strconv"
	"strings"

	"mesos-gpu/gpu"
)

// minDriver is the first release of NVIDIA's driver with which a method enforces shares: MPS limits
// memory since CUDA 11.5, and package limiter needs the form of NVML's list of processes that 470 has.
var minDriver = map[gpu.EnforcementMethod]int{gpu.EnforcedByMPS: 495, gpu.EnforcedByPreload: 470}

// CheckDriver returns an error if a method does not enforce shares with a version of the driver, such as
// "535.104.05". A version that is empty or malformed passes.
func CheckDriver(method gpu.EnforcementMethod, version string) error {
	release, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(release); err == nil && n < minDriver[method] {
		return fmt.Errorf("the driver is %s: %s enforces shares from %d on", version, method, minDriver[method])
	}
	return nil
}

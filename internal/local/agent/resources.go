package agent

import (
	"fmt"
	"math"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/local/agent/container"
)

// Resource names that this agent enforces.
const (
	gpusName   = "gpus"
	gpuIDsName = "gpu_ids"
)

// sumScalar sums the scalar resources of a name.
func sumScalar(resources []mesos.Resource, name string) float64 {
	var sum float64
	for _, r := range resources {
		if r.Name == name && r.GetType() == mesos.SCALAR {
			sum += r.GetScalar().GetValue()
		}
	}
	return sum
}

// countDevices counts the GPUs among the resources and lists those that are named:
// whole ones, and those of which the resources are a part.
func countDevices(resources []mesos.Resource) (gpus int, ids []string, err error) {
	n := sumScalar(resources, gpusName)
	if n != math.Trunc(n) || n < 0 {
		return 0, nil, fmt.Errorf("gpus:%v is no whole number of devices", n)
	}
	for _, r := range resources {
		if r.Name == gpuIDsName && r.GetType() == mesos.SET {
			ids = append(ids, r.GetSet().GetItem()...)
		}
	}
	for _, r := range resources {
		uuid, cores, ok := gpu.ShareResource(r.Name)
		if ok && !cores && !slices.Contains(ids, uuid) {
			ids = append(ids, uuid)
			n++
		}
	}
	return int(n), ids, nil
}

// cgroupLimits turns resources into those of a cgroup.
func cgroupLimits(resources []mesos.Resource) container.ContainerLimits {
	return container.ContainerLimits{
		CPUs:     sumScalar(resources, "cpus"),
		MemBytes: int64(sumScalar(resources, "mem") * (1 << 20)),
	}
}

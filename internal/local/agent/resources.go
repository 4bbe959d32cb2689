package agent

import (
	"fmt"
	"math"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/minimesos/resource"
)

// Names of the resources that this agent enforces.
const (
	gpusName   = "gpus"
	gpuIDsName = "gpu_ids"
)

// countDevices returns the number of GPUs in the resources and the ids of the
// named ones: whole GPUs and GPUs of which the resources contain a part.
func countDevices(resources []mesos.Resource) (gpus int, ids []string, err error) {
	n := resource.SumScalar(resources, gpusName)
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

// cgroupLimits converts resources to cgroup limits.
func cgroupLimits(resources []mesos.Resource) container.ContainerLimits {
	return container.ContainerLimits{
		CPUs:     resource.SumScalar(resources, "cpus"),
		MemBytes: int64(resource.SumScalar(resources, "mem") * (1 << 20)),
	}
}

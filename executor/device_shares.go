package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// ShareEnforcement is how the agent's daemon enforces a container's shares of
// devices.
type ShareEnforcement struct {
	Method gpu.EnforcementMethod
	Limit  task.ShareLimit
	// Warning, if not empty, is shown to the task's user.
	Warning string
	// Devices are all devices of the host.
	Devices []gpu.Device
}

// parseDeviceShares returns a task's shares of devices, sorted by device UUID.
func parseDeviceShares(resources []mesos.Resource) ([]gpu.DeviceShare, error) {
	byName := map[string]gpu.DeviceShare{}
	for _, r := range resources {
		uuid, cores, ok := gpu.ShareResource(r.Name)
		if !ok {
			continue
		}
		p, amount := byName[uuid], int64(r.GetScalar().GetValue())
		p.UUID = uuid
		if cores {
			p.Cores += int(amount)
		} else {
			p.MemMiB += amount
		}
		byName[uuid] = p
	}
	var parts []gpu.DeviceShare
	for uuid, p := range byName {
		if p.MemMiB < 1 {
			return nil, fmt.Errorf("task holds %d MiB of device %s and %d %% of its cores: take memory of it from the offer", p.MemMiB, uuid, p.Cores)
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b gpu.DeviceShare) int { return cmp.Compare(a.UUID, b.UUID) })
	return parts, nil
}

// applyShareLimit adds what enforces the task's shares of devices to the task.
// It returns an error if the shares cannot be enforced: the task must not
// start.
func (c *ExecutorConfig) applyShareLimit(ctx context.Context, t *task.TaskSpec) (warning string, err error) {
	if len(t.DeviceShares) == 0 {
		return "", nil
	}
	what := fmt.Sprintf("enforce the task's share of %d %s", len(t.DeviceShares), gpu.Plural(len(t.DeviceShares), "GPU"))
	if c.ReadShareLimits == nil {
		return "", errors.New(what + ": the agent has no GPU daemon (mesos-gpu agent)")
	}
	s, err := c.ReadShareLimits(ctx, t.Container.Value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if s.Method == gpu.EnforcedByDriver && t.Containerizer == job.Docker {
		return "", fmt.Errorf("%s: the driver limits the Mesos agent's cgroups, and the Docker engine's containers are in none of "+
			"them: use container: mesos, or --share-limit preload on the agent",
			what)
	}
	env := shareEnvironment(t.DeviceShares, s.Devices)
	for name, value := range s.Limit.Env {
		env[name] = value
	}
	t.ShareLimit = task.ShareLimit{Mounts: s.Limit.Mounts, Env: env}
	if s.Warning != "" {
		c.Log.WithField("task", t.ID).Warn(s.Warning)
	}
	return s.Warning, nil
}

// shareEnvironment returns the variables that describe the task's shares: this
// project's own, and those that programs written for gpushare and HAMi read.
// Devices count from 0 in the order of their minor numbers.
func shareEnvironment(parts []gpu.DeviceShare, devices []gpu.Device) map[string]string {
	known := map[string]gpu.Device{}
	for _, d := range devices {
		known[d.UUID] = d
	}
	parts = slices.SortedStableFunc(slices.Values(parts), func(a, b gpu.DeviceShare) int { return cmp.Compare(known[a.UUID].Minor, known[b.UUID].Minor) })
	env := map[string]string{"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}
	var ours, minors []string
	var mine, all int64
	cores := 0
	for i, p := range parts {
		ours = append(ours, fmt.Sprintf("%s %d %d", p.UUID, p.MemMiB, p.Cores))
		minors = append(minors, strconv.Itoa(known[p.UUID].Minor))
		mine, all, cores = mine+p.MemMiB, all+known[p.UUID].MemMiB, max(cores, p.Cores)
		env["CUDA_DEVICE_MEMORY_LIMIT_"+strconv.Itoa(i)] = fmt.Sprintf("%dm", p.MemMiB)
	}
	if len(parts) == 1 {
		env["CUDA_DEVICE_MEMORY_LIMIT"] = env["CUDA_DEVICE_MEMORY_LIMIT_0"]
	}
	if cores > 0 {
		env["CUDA_DEVICE_SM_LIMIT"] = strconv.Itoa(min(cores, gpu.AllCores))
	}
	env["MESOS_GPU_SHARE"] = strings.Join(ours, ";")
	env["ALIYUN_COM_GPU_MEM_CONTAINER"], env["ALIYUN_COM_GPU_MEM_POD"] = wholeGiB(mine), wholeGiB(mine)
	if all > 0 { // otherwise the host's devices are not known
		env["ALIYUN_COM_GPU_MEM_DEV"], env["ALIYUN_COM_GPU_MEM_IDX"] = wholeGiB(all), strings.Join(minors, ",")
	}
	return env
}

// wholeGiB formats MiB as whole GiB, at least 1, as gpushare does.
func wholeGiB(mib int64) string {
	return strconv.FormatInt(max(1, int64(math.Round(float64(mib)/1024))), 10)
}

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

// ShareEnforcement is what the agent's daemon says of a container with parts of devices.
type ShareEnforcement struct {
	Method gpu.EnforcementMethod
	Limit  task.ShareLimit
	// Warning, where set, is for who owns the task.
	Warning string
	// Devices are the host's.
	Devices []gpu.Device
}

// parseDeviceShares are a task's parts of shared devices, in the order of their names.
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

// applyShareLimit completes a task that has parts of devices by what holds it to them.
// No limit, where one is to be had, is an error: such a task must not start.
func (c *ExecutorConfig) applyShareLimit(ctx context.Context, t *task.TaskSpec) (warning string, err error) {
	if len(t.DeviceShares) == 0 {
		return "", nil
	}
	what := fmt.Sprintf("hold task to its part of %d %s", len(t.DeviceShares), gpu.Plural(len(t.DeviceShares), "GPU"))
	if c.ReadShareLimits == nil {
		return "", errors.New(what + ": this executor knows no agent daemon to ask")
	}
	s, err := c.ReadShareLimits(ctx, t.Container.Value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if s.Method == gpu.EnforcedByDriver && t.Containerizer == job.Docker {
		return "", fmt.Errorf("%s: the driver limits the Mesos agent's cgroups, and the Docker engine's containers are in none of them: use container: mesos, or --share-limit preload on the agent", what)
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

// shareEnvironment tells a task of its parts, in this project's words and in
// those that tasks of gpushare and of HAMi look for. Devices count from 0 in
// the order of their minor numbers.
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
	if all > 0 { // else the host's devices are not known
		env["ALIYUN_COM_GPU_MEM_DEV"], env["ALIYUN_COM_GPU_MEM_IDX"] = wholeGiB(all), strings.Join(minors, ",")
	}
	return env
}

// wholeGiB is in whole GiB, as gpushare counts, at least 1.
func wholeGiB(mib int64) string {
	return strconv.FormatInt(max(1, int64(math.Round(float64(mib)/1024))), 10)
}

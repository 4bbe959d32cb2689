package task

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/gpu"
)

// Environment returns the environment of the task's process: the variables that
// the scheduler has set (job.Spec.TaskEnvironment) with the values of secrets, and
// those that identify the task and its devices, which have precedence. A new
// variable of the executor is added here, and to the table in
// docs/reference/job-file.md. Runtimes add what depends on the container: folders of
// the driver volume and of the sandbox.
func (t TaskSpec) Environment() map[string]string {
	env := make(map[string]string, len(t.Env)+4)
	maps.Copy(env, t.Env)
	if t.Image == "" {
		t.Account.AddVariables(env)
	}
	if t.Job != "" { // not every framework names its tasks
		env["MESOS_GPU_JOB"] = t.Job
		env["MESOS_GPU_TASK_INDEX"] = strconv.Itoa(t.Index)
	}
	if t.Role != "" {
		env["MESOS_ALLOCATION_ROLE"] = t.Role
	}
	if len(t.DeviceShares) > 0 && !t.WholeGPUs {
		addShareVariables(env, t.DeviceShares, t.ShareLimit.Devices)
	}
	maps.Copy(env, t.ShareLimit.Env)
	env["MESOS_TASK_ID"] = t.ID
	env["NVIDIA_VISIBLE_DEVICES"] = t.visibleDevices()
	return env
}

// AddVariables adds the variables that a login sets, unless env has them. A nil Account adds none.
func (a *Account) AddVariables(env map[string]string) {
	if a == nil {
		return
	}
	for name, value := range map[string]string{"HOME": a.Home, "USER": a.Name, "LOGNAME": a.Name, "SHELL": a.Shell} {
		if _, set := env[name]; !set && value != "" {
			env[name] = value
		}
	}
}

// visibleDevices is for NVIDIA's container toolkit, which may be the engine's
// default runtime. "void" keeps the toolkit from adding every GPU of the host
// to a container without GPUs, or with GPUs of unknown UUIDs.
func (t TaskSpec) visibleDevices() string {
	if t.GPUs == 0 || len(t.DeviceIDs) == 0 {
		return "void"
	}
	return strings.Join(t.DeviceIDs, ",")
}

// addShareVariables adds the variables that describe the task's shares: this
// project's own, and those that programs written for gpushare and HAMi read.
// Devices count from 0 in the order of their minor numbers.
func addShareVariables(env map[string]string, shares []gpu.DeviceShare, devices []gpu.Device) {
	known := map[string]gpu.Device{}
	for _, d := range devices {
		known[d.UUID] = d
	}
	shares = slices.SortedStableFunc(slices.Values(shares), func(a, b gpu.DeviceShare) int { return cmp.Compare(known[a.UUID].Minor, known[b.UUID].Minor) })
	env["ALIYUN_COM_GPU_MEM_ASSIGNED"] = "true"
	var ours, minors []string
	var mine, all int64
	cores := 0
	for i, p := range shares {
		ours = append(ours, fmt.Sprintf("%s %d %d", p.UUID, p.MemMiB, p.Cores))
		minors = append(minors, strconv.Itoa(known[p.UUID].Minor))
		mine, all, cores = mine+p.MemMiB, all+known[p.UUID].MemMiB, max(cores, p.Cores)
		env["CUDA_DEVICE_MEMORY_LIMIT_"+strconv.Itoa(i)] = fmt.Sprintf("%dm", p.MemMiB)
	}
	if len(shares) == 1 {
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
}

// wholeGiB formats MiB as whole GiB, at least 1, as gpushare does.
func wholeGiB(mib int64) string {
	return strconv.FormatInt(max(1, int64(math.Round(float64(mib)/1024))), 10)
}

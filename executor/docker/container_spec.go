package docker

import (
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/task"
)

// Where a container finds what Mesos and NVIDIA's images expect.
const (
	sandboxInside = "/mnt/mesos/sandbox"
	driverInside  = "/usr/local/nvidia"

	pathVariable    = "PATH"
	libraryVariable = "LD_LIBRARY_PATH"
	// defaultPath is what the engine gives an image that sets no PATH.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Bounds of Mesos's own docker executor.
const (
	minCPUShares   = 2
	sharesPerCPU   = 1024
	minMemoryBytes = 32 << 20
	cpuPeriod      = 100_000 // µs
	minCPUQuota    = 1_000
	mib            = 1 << 20
)

// hostInfo is what the host knows about one container.
type hostInfo struct {
	// imageEnv are the image's own "NAME=value" entries.
	imageEnv []string
	// volume is the driver volume's host path, empty where the image does
	// not ask for it.
	volume string
	// devices are the host paths of the nodes the container gets.
	devices []string
	sandbox string
	// hostIPC says that the operator allows the host's memory segments.
	hostIPC bool
}

// namePrefix starts with mesos- as Mesos's own names do, but no name ever
// reads "mesos-UUID": an agent that also has the docker containerizer stops
// containers so named that it did not start.
const namePrefix = "mesos-gpu-"

func containerName(t task.TaskSpec) string {
	id := t.Container.Value
	if id == "" {
		id = t.ID
	}
	return containerNameFor(id)
}

// containerNameFor is the name of a task's container by its executor's.
func containerNameFor(id string) string {
	legal := func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", r) {
			return r
		}
		return '_'
	}
	return namePrefix + strings.Map(legal, id)
}

func newContainerConfig(t task.TaskSpec, f hostInfo) *container.Config {
	grace := int(t.KillGrace.Seconds())
	return &container.Config{
		Image:        t.Image,
		Entrypoint:   t.Entrypoint,
		Cmd:          t.Argv,
		Env:          containerEnv(t, f),
		Labels:       containerLabels(t),
		StopTimeout:  &grace, // for an engine that stops
		AttachStdout: true,
		AttachStderr: true,
	}
}

// containerLabels are the task's, and above them what it is.
func containerLabels(t task.TaskSpec) map[string]string {
	all := map[string]string{}
	maps.Copy(all, t.Labels)
	all["mesos-gpu.job"], all["mesos-gpu.task"], all["mesos-gpu.framework"] = t.Job, t.ID, t.Framework
	return all
}

// newHostConfig gives the container the agent's network, as Mesos's docker
// executor does by default: tasks of one job on several agents reach one
// another at their hosts' addresses without port mappings, and a docker task
// sees the same network as a mesos one.
//
// Capabilities stay the engine's defaults, MKNOD among them: the container's
// devices cgroup denies opening a node that is not in Devices, whoever made
// it, and taking MKNOD away would only break images that make harmless nodes.
func newHostConfig(t task.TaskSpec, f hostInfo) *container.HostConfig {
	h := &container.HostConfig{
		NetworkMode: "host",
		// The output goes to the sandbox; a second copy would fill the disk.
		LogConfig: container.LogConfig{Type: "none"},
		// Shared memory counts as the task's memory. The engine's 64 MiB
		// break the data loaders of the common frameworks.
		ShmSize:     memoryRequest(t),
		Mounts:      []mount.Mount{{Type: mount.TypeBind, Source: f.sandbox, Target: sandboxInside}},
		OomScoreAdj: oomScore(t, readTotalMemory()),
	}
	applyLimits(&h.Resources, t)
	for _, node := range f.devices {
		h.Devices = append(h.Devices, container.DeviceMapping{
			PathOnHost: node, PathInContainer: "/dev/" + filepath.Base(node), CgroupPermissions: "rw",
		})
	}
	if f.volume != "" {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: f.volume, Target: driverInside, ReadOnly: true})
	}
	for _, m := range t.ShareLimit.Mounts {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return h
}

// memoryRequest is in bytes.
func memoryRequest(t task.TaskSpec) int64 { return max(minMemoryBytes, int64(t.MemMiB*mib)) }

// memoryLimit is in bytes, 0 for none.
func memoryLimit(t task.TaskSpec) int64 {
	mebibytes := t.MemMiB
	if limit, ok := t.Limits["mem"]; ok {
		mebibytes = limit
	}
	if math.IsInf(mebibytes, 1) {
		return 0
	}
	return max(minMemoryBytes, int64(mebibytes*mib))
}

// applyLimits are those of Mesos's docker executor: a task may use more than its
// resources where it has a limit beyond them, and is then the first that the
// kernel ends for memory.
func applyLimits(r *container.Resources, t task.TaskSpec) {
	r.CPUShares = max(minCPUShares, int64(t.CPUs*sharesPerCPU))
	r.Memory = memoryLimit(t)
	if limit, ok := t.Limits["cpus"]; ok && !math.IsInf(limit, 1) {
		r.CPUPeriod = cpuPeriod
		r.CPUQuota = max(minCPUQuota, int64(limit*cpuPeriod))
	}
	if _, ok := t.Limits["mem"]; ok {
		r.MemoryReservation = memoryRequest(t)
	}
}

// oomScore is above 0 for a task whose limit exceeds its request.
func oomScore(t task.TaskSpec, total uint64) int {
	if limit, ok := t.Limits["mem"]; !ok || limit <= t.MemMiB || total == 0 {
		return 0
	}
	return max(0, 1000-int(1000*uint64(memoryRequest(t))/total))
}

func readTotalMemory() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}

// containerEnv is the job's environment over the driver's search paths; the image's
// own entries stay where neither sets the same name.
func containerEnv(t task.TaskSpec, f hostInfo) []string {
	vars := map[string]string{}
	if f.volume != "" {
		addUnlessSet(vars, f.imageEnv, pathVariable, driverInside+"/bin:"+defaultPath)
		addUnlessSet(vars, f.imageEnv, libraryVariable, driverInside+"/lib:"+driverInside+"/lib64")
	}
	for name, value := range t.Environment() {
		vars[name] = value
	}
	vars["MESOS_SANDBOX"] = sandboxInside
	vars["MESOS_CONTAINER_NAME"] = containerName(t)
	entries := make([]string, 0, len(vars))
	for name, value := range vars {
		entries = append(entries, name+"="+value)
	}
	slices.Sort(entries)
	return entries
}

func addUnlessSet(vars map[string]string, imageEnv []string, name, value string) {
	set := slices.ContainsFunc(imageEnv, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	if !set {
		vars[name] = value
	}
}

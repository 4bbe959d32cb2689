package docker

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/task"
)

// Paths and variables in the container that Mesos's and NVIDIA's images
// expect.
const (
	sandboxInside = "/mnt/mesos/sandbox"
	driverInside  = "/usr/local/nvidia"

	pathVariable    = "PATH"
	libraryVariable = "LD_LIBRARY_PATH"
	// defaultPath is the PATH that the engine sets for an image without one.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Limits of Mesos's own docker executor.
const (
	minCPUShares   = 2
	sharesPerCPU   = 1024
	minMemoryBytes = 32 << 20
	cpuPeriod      = 100_000 // µs
	minCPUQuota    = 1_000
	mib            = 1 << 20
)

// containerSpec is the engine's configuration of one container.
type containerSpec struct {
	config  *container.Config
	host    *container.HostConfig
	network *network.NetworkingConfig
	hostIPC bool // whether the operator allows the host's IPC namespace
}

// newContainerSpec returns the configuration of a task's container. The fields
// of a ContainerInfo have the meaning that Mesos's own docker executor gives
// them, or are rejected: see the table in docs/reference/executor.md.
func newContainerSpec(t task.TaskSpec, f hostInfo) (containerSpec, error) {
	s := containerSpec{newContainerConfig(t, f), newHostConfig(t, f), &network.NetworkingConfig{}, f.hostIPC}
	c := t.MesosContainer
	if c == nil || c.GetType() != mesos.ContainerInfo_DOCKER {
		return s, nil
	}
	for _, step := range []func(task.TaskSpec, hostInfo, *mesos.ContainerInfo) error{
		s.rejectUnsupported, s.addVolumes, s.chooseNetwork, s.applyParameters, s.setHostUser, s.setOwnerHome, s.publishPorts,
	} {
		if err := step(t, f, c); err != nil {
			return containerSpec{}, fmt.Errorf("docker task: %w", err)
		}
	}
	return s, nil
}

// namePrefix starts with mesos-, as Mesos's own container names do. A name
// never has the form "mesos-UUID": an agent with the docker containerizer
// stops unknown containers with such names.
const namePrefix = "mesos-gpu-"

func containerName(t task.TaskSpec) string {
	id := t.Container.Value
	if id == "" {
		id = t.ID
	}
	return containerNameFor(id)
}

// containerNameFor returns the name of a task's container for the id of its
// executor's container.
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

// containerLabels returns the task's labels. The labels that identify the task
// replace labels of the same name.
func containerLabels(t task.TaskSpec) map[string]string {
	all := map[string]string{}
	maps.Copy(all, t.Labels)
	all[jobLabel], all[taskLabel], all[frameworkLabel] = t.Job, t.ID, t.Framework
	if len(t.DeviceIDs) > 0 {
		all[containerLabel], all[devicesLabel] = t.Container.Value, formatDevices(t)
	}
	return all
}

// newHostConfig uses the agent's network, as Mesos's docker executor does by
// default: tasks of one job on several agents reach each other at their hosts'
// addresses without port mappings, and docker tasks see the same network as
// mesos tasks.
//
// Capabilities stay at the engine's defaults, including MKNOD: the devices
// cgroup denies opening any node that is not in Devices, and without MKNOD
// images that create harmless nodes would break.
func newHostConfig(t task.TaskSpec, f hostInfo) *container.HostConfig {
	h := &container.HostConfig{
		NetworkMode: "host",
		// The output goes to the sandbox. A second copy would fill the disk.
		LogConfig: container.LogConfig{Type: "none"},
		// Shared memory counts as the task's memory. The engine's default of
		// 64 MiB breaks the data loaders of common frameworks.
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
	for _, node := range f.hostDevices {
		h.Devices = append(h.Devices, container.DeviceMapping{PathOnHost: node, PathInContainer: node, CgroupPermissions: "rw"})
	}
	if f.volume != "" {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: f.volume, Target: driverInside, ReadOnly: true})
	}
	for _, m := range t.HostMounts() {
		target := m.Target
		if !filepath.IsAbs(target) {
			target = filepath.Join(sandboxInside, target)
		}
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: m.Source, Target: target, ReadOnly: m.ReadOnly})
	}
	return h
}

// memoryRequest is in bytes.
func memoryRequest(t task.TaskSpec) int64 { return max(minMemoryBytes, int64(t.MemMiB*mib)) }

// memoryLimit is in bytes; 0 means no limit.
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

// applyLimits sets the limits of Mesos's docker executor. A task with a limit
// above its resources may use more than its resources; under memory pressure
// the kernel kills it first.
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

// containerEnv returns the driver's search paths and the job's environment,
// which replaces them. The image's own entries remain for all other names.
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

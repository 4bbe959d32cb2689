package docker

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

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
	mib            = 1 << 20
)

// facts is what the host knows about one container.
type facts struct {
	// imageEnv are the image's own "NAME=value" entries.
	imageEnv []string
	// volume is the driver volume's host path, empty where the image does
	// not ask for it.
	volume string
	// devices are the host paths of the nodes the container gets.
	devices []string
	sandbox string
}

// containerName starts with mesos- as Mesos's own do, but never reads
// "mesos-UUID": an agent that also has the docker containerizer stops
// containers so named that it did not start.
func containerName(t task.Task) string {
	id := t.Container.Value
	if id == "" {
		id = t.ID
	}
	legal := func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", r) {
			return r
		}
		return '_'
	}
	return "mesos-gpu-" + strings.Map(legal, id)
}

func containerConfig(t task.Task, f facts) *container.Config {
	return &container.Config{
		Image:      t.Launch.Image,
		Entrypoint: t.Entrypoint,
		Cmd:        t.Launch.Command,
		Env:        env(t, f),
		Labels: map[string]string{
			"mesos-gpu.job": t.Launch.Job, "mesos-gpu.task": t.ID, "mesos-gpu.framework": t.Framework,
		},
		AttachStdout: true,
		AttachStderr: true,
	}
}

// hostConfig gives the container the agent's network, as Mesos's docker
// executor does by default: tasks of one job on several agents reach one
// another at their hosts' addresses without port mappings, and a docker task
// sees the same network as a mesos one.
//
// Capabilities stay the engine's defaults, MKNOD among them: the container's
// devices cgroup denies opening a node that is not in Devices, whoever made
// it, and taking MKNOD away would only break images that make harmless nodes.
func hostConfig(t task.Task, f facts) *container.HostConfig {
	memory := memoryLimit(t)
	h := &container.HostConfig{
		NetworkMode: "host",
		// The output goes to the sandbox; a second copy would fill the disk.
		LogConfig: container.LogConfig{Type: "none"},
		// Shared memory counts as the task's memory. The engine's 64 MiB
		// break the data loaders of the common frameworks.
		ShmSize: memory,
		Mounts:  []mount.Mount{{Type: mount.TypeBind, Source: f.sandbox, Target: sandboxInside}},
		Resources: container.Resources{
			CPUShares: max(minCPUShares, int64(t.Launch.CPUs*sharesPerCPU)),
			Memory:    memory,
		},
	}
	for _, node := range f.devices {
		h.Devices = append(h.Devices, container.DeviceMapping{
			PathOnHost: node, PathInContainer: "/dev/" + filepath.Base(node), CgroupPermissions: "rw",
		})
	}
	if f.volume != "" {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: f.volume, Target: driverInside, ReadOnly: true})
	}
	return h
}

// memoryLimit is in bytes.
func memoryLimit(t task.Task) int64 { return max(minMemoryBytes, int64(t.Launch.MemMiB*mib)) }

// env is the job's environment over the driver's search paths; the image's
// own entries stay where neither sets the same name.
func env(t task.Task, f facts) []string {
	vars := map[string]string{}
	if f.volume != "" {
		addUnlessSet(vars, f.imageEnv, pathVariable, driverInside+"/bin:"+defaultPath)
		addUnlessSet(vars, f.imageEnv, libraryVariable, driverInside+"/lib:"+driverInside+"/lib64")
	}
	for name, value := range t.Env() {
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

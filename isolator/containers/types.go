package containers

import (
	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/share"
)

// LaunchRequest is the agent's description of a container that it is about to launch.
type LaunchRequest struct {
	// Container is Mesos's id, "PARENT.CHILD" for a nested one.
	Container string `json:"container"`
	// Directory is the sandbox on the host.
	Directory string `json:"directory,omitempty"`
	// Rootfs is set if the container has a root file system of its own, made from Image.
	Rootfs    bool                       `json:"rootfs,omitempty"`
	Framework string                     `json:"framework,omitempty"`
	Executor  string                     `json:"executor,omitempty"`
	Task      string                     `json:"task,omitempty"`
	Job       string                     `json:"job,omitempty"`
	Resources []allocation.MesosResource `json:"resources,omitempty"`
	Image     ImageSettings              `json:"image,omitzero"`
}

// ImageSettings are the labels and the environment of an image.
type ImageSettings struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// LaunchSetup contains the settings with which a container is launched.
type LaunchSetup struct {
	// Devices are the UUIDs of the GPUs that it holds or inherits.
	Devices []string `json:"devices"`
	// Nodes are for the container's own /dev.
	Nodes []DeviceNode `json:"nodes"`
	// Mounts are for the container's own root file system.
	Mounts      []BindMount       `json:"mounts"`
	Environment map[string]string `json:"environment"`
}

// DeviceNode is a character device.
type DeviceNode struct {
	Path  string `json:"path"`
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
}

// BindMount is a bind mount of the host's Source at the container's Target.
type BindMount = share.LimitMount

// ContainerShare describes how a container's shares of devices are enforced, and what its
// processes need for that.
type ContainerShare struct {
	Method gpu.EnforcementMethod `json:"method"`
	Shares []gpu.DeviceShare     `json:"parts"`
	// Mounts are for the container, Environment is for its processes.
	Mounts      []BindMount       `json:"mounts"`
	Environment map[string]string `json:"environment"`
	// Warning, if set, is for the owner of the task.
	Warning string `json:"warning,omitempty"`
}

// ContainerStatus is a container's allocation, and the kernel's rules for its cgroup.
type ContainerStatus struct {
	Holder gpu.ContainerDevices `json:"holder"`
	Rules  []string             `json:"rules"`
}

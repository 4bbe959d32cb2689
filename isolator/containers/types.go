package containers

import (
	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/share"
)

// LaunchRequest is what the agent says of a container that it is about to launch.
type LaunchRequest struct {
	// Container is Mesos's id, nested ones "PARENT.CHILD".
	Container string `json:"container"`
	// Directory is the sandbox on the host.
	Directory string `json:"directory,omitempty"`
	// Rootfs tells that the container has a file system of its own, made of
	// Image.
	Rootfs    bool                       `json:"rootfs,omitempty"`
	Framework string                     `json:"framework,omitempty"`
	Executor  string                     `json:"executor,omitempty"`
	Task      string                     `json:"task,omitempty"`
	Job       string                     `json:"job,omitempty"`
	Resources []allocation.MesosResource `json:"resources,omitempty"`
	Image     ImageSettings              `json:"image,omitzero"`
}

// ImageSettings is what an image says of itself.
type ImageSettings struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// LaunchSetup is what a container gets at its launch.
type LaunchSetup struct {
	// Devices are the GPUs it holds or inherits, by UUID.
	Devices []string `json:"devices"`
	// Nodes belong into a /dev of the container's own.
	Nodes []DeviceNode `json:"nodes"`
	// Mounts belong into a file system of the container's own.
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

// ContainerShare is how a container is held to its parts of shared devices, and what
// its processes need for that.
type ContainerShare struct {
	Method gpu.EnforcementMethod `json:"method"`
	Shares []gpu.DeviceShare     `json:"parts"`
	// Mounts belong into the container, Environment to its processes.
	Mounts      []BindMount       `json:"mounts"`
	Environment map[string]string `json:"environment"`
	// Warning, where set, is for whoever owns the task.
	Warning string `json:"warning,omitempty"`
}

// ContainerStatus is what is known of a container, Rules by the kernel.
type ContainerStatus struct {
	Holder gpu.ContainerDevices `json:"holder"`
	Rules  []string             `json:"rules"`
}

package containers

import (
	"encoding/json"

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
	Shares []gpu.DeviceShare     `json:"shares"`
	// Mounts are for the container, Environment is for its processes.
	Mounts      []BindMount       `json:"mounts"`
	Environment map[string]string `json:"environment"`
	// Warning, if set, is for the owner of the task.
	Warning string `json:"warning,omitempty"`
}

// UnmarshalJSON also reads the answer of a daemon of release 0.1.0, which called the shares parts: during an upgrade a task
// may start before the daemon does.
func (s *ContainerShare) UnmarshalJSON(text []byte) error {
	type current ContainerShare
	decoded := struct {
		*current
		Parts []gpu.DeviceShare `json:"parts"`
	}{current: (*current)(s)}
	if err := json.Unmarshal(text, &decoded); err != nil {
		return err
	}
	if s.Shares == nil {
		s.Shares = decoded.Parts
	}
	return nil
}

// ContainerStatus is a container's allocation, and the kernel's rules for its cgroup.
type ContainerStatus struct {
	Holder gpu.ContainerDevices `json:"holder"`
	Rules  []string             `json:"rules"`
}

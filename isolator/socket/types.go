package socket

import (
	"context"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/watch"
)

// ContainerManager is what the calls about containers come to, as containers.Manager
// does it. Errors that are *containers.InvalidContainerError, *containers.UnknownContainerError and
// *allocation.RejectedError are the caller's fault.
type ContainerManager interface {
	Recover(alive []string) error
	Prepare(context.Context, containers.LaunchRequest) (containers.LaunchSetup, error)
	Isolate(container string, pid int) error
	Update(container string, resources []allocation.MesosResource) ([]string, error)
	Status(container string) (containers.ContainerStatus, error)
	// Devices are those that the container holds or inherits.
	Devices(container string) ([]string, error)
	Cleanup(container string) error
	Holders() []gpu.ContainerDevices
	// Share is how a container is held to its parts of shared devices.
	Share(ctx context.Context, container string) (containers.ContainerShare, error)
	// Stock are the devices set aside for a bare number of gpus.
	Stock() []string
}

// DeviceMonitor is what the calls about devices come to, as watch.Watcher does it.
// Errors about a device that there is not wrap watch.ErrUnknownDevice.
type DeviceMonitor interface {
	DeviceStates() []watch.DeviceState
	// SampleHistory is the last minutes, oldest first.
	SampleHistory(uuid string) ([]gpu.Sample, bool)
	// WatchConditions gives the condition of each of those devices, of all where none is
	// named, at once and again whenever it changes, until ctx ends; then the
	// channel is closed.
	WatchConditions(ctx context.Context, uuids ...string) (<-chan watch.ConditionUpdate, error)
	CordonDevice(uuid, reason string) error
	UncordonDevice(uuid string) error
}

// ModeManager is what the calls about shared devices come to, as share.ModeStore does
// it. Errors of Set wrap share.ErrUnknownDevice, share.ErrNoLimiter or share.ErrStatic where the call is
// at fault.
type ModeManager interface {
	SharedCapacity(uuid string) (all gpu.DeviceShare, ok bool)
	IsPending(uuid string) bool
	Set(uuid string, shared bool) error
}

// DeviceInfo is one of the host's, of which GET /v1/devices gives a list.
type DeviceInfo struct {
	Device    gpu.Device          `json:"device"`
	Condition gpu.DeviceCondition `json:"condition"`
	Stock     bool                `json:"stock"`
	Holders   []string            `json:"holders"`
	Sample    *gpu.Sample         `json:"sample,omitempty"` // absent before the first
	// Share is absent for a device that is whole, and will stay so.
	Share *DeviceSharing `json:"share,omitempty"`
}

// DeviceSharing is how a device is shared.
type DeviceSharing struct {
	Shared bool `json:"shared"`
	// Pending tells that it takes the other form once it is idle.
	Pending bool `json:"pending,omitempty"`
	// MemMiB and Cores, in percent, are what is advertised of it.
	MemMiB int64 `json:"mem_mib"`
	Cores  int   `json:"cores"`
	// Limit is what holds tasks to their parts.
	Limit      gpu.EnforcementMethod `json:"limit"`
	Containers []ContainerShare      `json:"parts"`
}

// ContainerShare is what one container has of a device.
type ContainerShare struct {
	Container string `json:"container"`
	MemMiB    int64  `json:"mem_mib"`
	Cores     int    `json:"cores"`
}

// ContainerUsage is the answer to GET /v1/usage.
type ContainerUsage struct {
	Devices []DeviceSample `json:"devices"`
	// Parts are what the container has of shared devices, as far as its limit
	// measures.
	Parts []ShareUsage `json:"parts,omitempty"`
}

// ShareUsage is one part of a container.
type ShareUsage struct {
	Device        string `json:"device"`
	MemLimitBytes int64  `json:"mem_limit_bytes"`
	Cores         int    `json:"cores"`
	// MemUsedBytes and ThrottledSeconds are absent where nothing measures
	// them.
	MemUsedBytes     *int64   `json:"mem_used_bytes,omitempty"`
	ThrottledSeconds *float64 `json:"throttled_seconds,omitempty"`
}

// DeviceSample is one device of a container.
type DeviceSample struct {
	Device string      `json:"device"`
	Sample *gpu.Sample `json:"sample,omitempty"`
}

// DeviceHistory is the answer to GET /v1/history.
type DeviceHistory struct {
	Device  string       `json:"device"`
	Samples []gpu.Sample `json:"samples"`
}

// Bodies of the calls that are more than one of another package's values.
type (
	recoverRequest struct {
		Containers []string `json:"containers"`
	}
	isolateRequest struct {
		Container string `json:"container"`
		PID       int    `json:"pid"`
	}
	updateRequest struct {
		Container string                     `json:"container"`
		Resources []allocation.MesosResource `json:"resources"`
	}
	updateResponse struct {
		Devices []string `json:"devices"`
	}
	cleanupRequest struct {
		Container string `json:"container"`
	}
	cordonRequest struct {
		Reason string `json:"reason"`
	}
	versionResponse struct {
		Version string `json:"version"`
		// Driver and CUDA are as in gpu.Host.
		Driver string `json:"driver,omitempty"`
		CUDA   string `json:"cuda,omitempty"`
		// Simulated is as in gpu.Host, too.
		Simulated bool `json:"simulated,omitempty"`
	}
	errorResponse struct {
		Error string `json:"error"`
	}
	emptyBody struct{}
)

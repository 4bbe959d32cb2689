package socket

import (
	"context"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/watch"
)

// ContainerManager handles the calls about containers; containers.Manager
// implements it. If the caller is at fault, the error is a
// *containers.InvalidContainerError, *containers.UnknownContainerError,
// *containers.ImageError or *allocation.RejectedError.
type ContainerManager interface {
	Recover(alive []string) error
	Prepare(context.Context, containers.LaunchRequest) (containers.LaunchSetup, error)
	Isolate(container string, pid int) error
	Update(container string, resources []allocation.MesosResource) ([]string, error)
	Status(container string) (containers.ContainerStatus, error)
	// Devices returns the devices that the container holds or inherits.
	Devices(container string) ([]string, error)
	Cleanup(container string) error
	Holders() []gpu.ContainerDevices
	// Share returns how a container's shares of devices are enforced.
	Share(ctx context.Context, container string) (containers.ContainerShare, error)
	// Stock returns the devices that are advertised only by number.
	Stock() []string
}

// DeviceMonitor handles the calls about devices; watch.Watcher implements it.
// Errors about an unknown device wrap watch.ErrUnknownDevice.
type DeviceMonitor interface {
	DeviceStates() []watch.DeviceState
	// SampleHistory returns the samples of the last minutes, oldest first.
	SampleHistory(uuid string) ([]gpu.Sample, bool)
	// WatchConditions sends the condition of each of the devices, or of all if
	// none is named, at once and after each change. It closes the channel when
	// ctx ends.
	WatchConditions(ctx context.Context, uuids ...string) (<-chan watch.ConditionUpdate, error)
	CordonDevice(uuid, reason string) error
	UncordonDevice(uuid string) error
}

// ModeManager handles the calls about sharing; share.ModeStore implements it.
// If the caller is at fault, the error of Set wraps
// share.ErrUnknownDevice, share.ErrNoLimiter or share.ErrStatic.
type ModeManager interface {
	SharedCapacity(uuid string) (all gpu.DeviceShare, ok bool)
	IsPending(uuid string) bool
	Set(uuid string, shared bool) error
}

// DeviceInfo is one device of the answer to GET /v1/devices.
type DeviceInfo struct {
	// Device has the minor number -1 and no model if the driver counts the device and cannot describe
	// it.
	Device    gpu.Device          `json:"device"`
	Condition gpu.DeviceCondition `json:"condition"`
	Stock     bool                `json:"stock"`
	Holders   []string            `json:"holders"`
	Sample    *gpu.Sample         `json:"sample,omitempty"` // absent before the first
	// Share is absent for a whole device without a pending request.
	Share *DeviceSharing `json:"share,omitempty"`
}

// DeviceSharing is how a device is shared.
type DeviceSharing struct {
	Shared bool `json:"shared"`
	// Pending is set if the device changes its mode when it is idle.
	Pending bool `json:"pending,omitempty"`
	// MemMiB and Cores (percent) are the advertised amounts.
	MemMiB int64 `json:"mem_mib"`
	Cores  int   `json:"cores"`
	// Limit is how shares are enforced.
	Limit      gpu.EnforcementMethod `json:"limit"`
	Containers []ContainerShare      `json:"shares"`
}

// ContainerShare is one container's share of a device.
type ContainerShare struct {
	Container string `json:"container"`
	MemMiB    int64  `json:"mem_mib"`
	Cores     int    `json:"cores"`
}

// ContainerUsage is the answer to GET /v1/usage.
type ContainerUsage struct {
	Devices []DeviceSample `json:"devices"`
	// Shares are the container's shares of devices, if its limiter reports
	// them.
	Shares []ShareUsage `json:"shares,omitempty"`
}

// ShareUsage is one share of a container.
type ShareUsage struct {
	Device        string `json:"device"`
	MemLimitBytes int64  `json:"mem_limit_bytes"`
	Cores         int    `json:"cores"`
	// MemUsedBytes and ThrottledSeconds are absent if nothing measures them.
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

// Request and response bodies that are not a single value of another package.
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
		// Simulated is as in gpu.Host.
		Simulated bool `json:"simulated,omitempty"`
	}
	errorResponse struct {
		Error string `json:"error"`
		// Device and Holders are set if containers hold a device that was claimed.
		Device  string                 `json:"device,omitempty"`
		Holders []gpu.ContainerDevices `json:"holders,omitempty"`
	}
	emptyBody struct{}
)

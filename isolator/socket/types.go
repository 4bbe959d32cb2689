package socket

import (
	"context"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/watch"
)

// Containers is what the calls about containers come to, as containers.Containers
// does it. Errors that are *containers.Invalid, *containers.Unknown and
// *ledger.Refusal are the caller's fault.
type Containers interface {
	Recover(alive []string) error
	Prepare(context.Context, containers.Launch) (containers.Setup, error)
	Isolate(container string, pid int) error
	Update(container string, resources []ledger.Resource) ([]string, error)
	Status(container string) (containers.Status, error)
	// Devices are those that the container holds or inherits.
	Devices(container string) ([]string, error)
	Cleanup(container string) error
	Holders() []gpu.Holder
	// Share is how a container is held to its parts of shared devices.
	Share(ctx context.Context, container string) (containers.Share, error)
	// Stock are the devices set aside for a bare number of gpus.
	Stock() []string
}

// Devices is what the calls about devices come to, as watch.Watcher does it.
// Errors about a device that there is not wrap watch.ErrUnknown.
type Devices interface {
	Devices() []watch.State
	// History is the last minutes, oldest first.
	History(uuid string) ([]gpu.Sample, bool)
	// Watch gives the condition of each of those devices, of all where none is
	// named, at once and again whenever it changes, until ctx ends; then the
	// channel is closed.
	Watch(ctx context.Context, uuids ...string) (<-chan watch.Update, error)
	Cordon(uuid, reason string) error
	Uncordon(uuid string) error
}

// Sharing is what the calls about shared devices come to, as share.Forms does
// it. Errors of Set wrap share.ErrUnknown, share.ErrUnheld or share.ErrStatic where the call is
// at fault.
type Sharing interface {
	Shared(uuid string) (all gpu.Part, ok bool)
	Pending(uuid string) bool
	Set(uuid string, shared bool) error
}

// Device is one of the host's, of which GET /v1/devices gives a list.
type Device struct {
	Device    gpu.Device    `json:"device"`
	Condition gpu.Condition `json:"condition"`
	Stock     bool          `json:"stock"`
	Holders   []string      `json:"holders"`
	Sample    *gpu.Sample   `json:"sample,omitempty"` // absent before the first
	// Share is absent for a device that is whole, and will stay so.
	Share *DeviceShare `json:"share,omitempty"`
}

// DeviceShare is how a device is shared.
type DeviceShare struct {
	Shared bool `json:"shared"`
	// Pending tells that it takes the other form once it is idle.
	Pending bool `json:"pending,omitempty"`
	// MemMiB and Cores, in percent, are what is advertised of it.
	MemMiB int64 `json:"mem_mib"`
	Cores  int   `json:"cores"`
	// Limit is what holds tasks to their parts.
	Limit gpu.Method   `json:"limit"`
	Parts []DevicePart `json:"parts"`
}

// DevicePart is what one container has of a device.
type DevicePart struct {
	Container string `json:"container"`
	MemMiB    int64  `json:"mem_mib"`
	Cores     int    `json:"cores"`
}

// Usage is the answer to GET /v1/usage.
type Usage struct {
	Devices []DeviceUsage `json:"devices"`
	// Parts are what the container has of shared devices, as far as its limit
	// measures.
	Parts []PartUsage `json:"parts,omitempty"`
}

// PartUsage is one part of a container.
type PartUsage struct {
	Device        string `json:"device"`
	MemLimitBytes int64  `json:"mem_limit_bytes"`
	Cores         int    `json:"cores"`
	// MemUsedBytes and ThrottledSeconds are absent where nothing measures
	// them.
	MemUsedBytes     *int64   `json:"mem_used_bytes,omitempty"`
	ThrottledSeconds *float64 `json:"throttled_seconds,omitempty"`
}

// DeviceUsage is one device of a container.
type DeviceUsage struct {
	Device string      `json:"device"`
	Sample *gpu.Sample `json:"sample,omitempty"`
}

// History is the answer to GET /v1/history.
type History struct {
	Device  string       `json:"device"`
	Samples []gpu.Sample `json:"samples"`
}

// Bodies of the calls that are more than one of another package's values.
type (
	recovery struct {
		Containers []string `json:"containers"`
	}
	isolation struct {
		Container string `json:"container"`
		PID       int    `json:"pid"`
	}
	change struct {
		Container string            `json:"container"`
		Resources []ledger.Resource `json:"resources"`
	}
	changed struct {
		Devices []string `json:"devices"`
	}
	end struct {
		Container string `json:"container"`
	}
	cordon struct {
		Reason string `json:"reason"`
	}
	version struct {
		Version string `json:"version"`
		// Driver and CUDA are as in gpu.Host.
		Driver string `json:"driver,omitempty"`
		CUDA   string `json:"cuda,omitempty"`
		// Simulated is as in gpu.Host, too.
		Simulated bool `json:"simulated,omitempty"`
	}
	failure struct {
		Error string `json:"error"`
	}
	nothing struct{}
)

// Package rules computes the device rules of a container's cgroup from the
// GPUs that it was granted. It is pure: package cgroup writes the rules.
package rules

import (
	"fmt"
	"strconv"
)

// NVIDIA's character device numbers: 195:N is GPU N, 195:255 nvidiactl,
// 195:254 nvidia-modeset. NVSwitch nodes use the control minor with their own
// major.
const (
	NvidiaMajor  = 195
	ControlMinor = 255
	ModesetMinor = 254
)

// MajorNumbers are the driver's dynamic device numbers from /proc/devices. 0
// means that a module is not loaded.
type MajorNumbers struct {
	UVM    uint32 // nvidia-uvm
	Caps   uint32 // nvidia-caps, the capability nodes of MIG devices
	Switch uint32 // nvidia-nvswitch
}

// AnyNumber is the wildcard of a rule's major or minor number.
const AnyNumber = -1

// DeviceRule allows a container to access character ('c') or block ('b')
// devices, or both ('a': what the kernel lists for an unconfined cgroup).
// Access is a subset of "rwm" in that order: read, write, mknod.
type DeviceRule struct {
	Kind         byte
	Major, Minor int64
	Access       string
}

// String returns the kernel's form, "c 195:0 rw".
func (r DeviceRule) String() string {
	n := func(v int64) string {
		if v == AnyNumber {
			return "*"
		}
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprintf("%c %s:%s %s", r.Kind, n(r.Major), n(r.Minor), r.Access)
}

// DeviceNode is a device node as a container sees it.
type DeviceNode struct {
	// Name is the path below /dev: "nvidia0", "nvidia-uvm",
	// "nvidia-caps/nvidia-cap3".
	Name         string
	Major, Minor uint32
	// UUID is the GPU of the node; empty for a control node. For a GPU with
	// MIG devices, its own node and those of its GPU instances have the GPU's
	// UUID, and the node of a compute instance has the MIG device's UUID.
	UUID string
}

// allowRule returns the rule that allows access to the node.
func (n DeviceNode) allowRule(access string) DeviceRule {
	return DeviceRule{'c', int64(n.Major), int64(n.Minor), access}
}

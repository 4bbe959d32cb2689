// Package rules turns the GPUs a container was given into the device rules
// of its cgroup. It is pure: devices in, rules out; package cgroup writes
// them.
package rules

import (
	"fmt"
	"strconv"
)

// NVIDIA's character device numbers: 195:N is GPU N, 195:255 nvidiactl,
// 195:254 nvidia-modeset. NVSwitch nodes have the control minor too, of a
// major of their own.
const (
	NvidiaMajor  = 195
	ControlMinor = 255
	ModesetMinor = 254
)

// MajorNumbers are the driver's character device numbers that /proc/devices alone
// tells. 0 stands for a module that is not loaded.
type MajorNumbers struct {
	UVM    uint32 // nvidia-uvm
	Caps   uint32 // nvidia-caps, the capability nodes of MIG devices
	Switch uint32 // nvidia-nvswitch
}

// AnyNumber is the wildcard of a rule's major or minor number.
const AnyNumber = -1

// DeviceRule allows a container to reach character ('c') or block ('b') devices, or
// both ('a': what the kernel lists for a cgroup that nobody confined).
// Access is a subset of "rwm" in that order: read, write, mknod.
type DeviceRule struct {
	Kind         byte
	Major, Minor int64
	Access       string
}

// String is the kernel's form, "c 195:0 rw".
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
	// UUID names the GPU behind it; empty for a control node. A GPU that is
	// cut into MIG devices has its node and those of its GPU instances under
	// its own UUID, and a compute instance's under the MIG device's.
	UUID string
}

// allowRule allows that access to the node.
func (n DeviceNode) allowRule(access string) DeviceRule {
	return DeviceRule{'c', int64(n.Major), int64(n.Minor), access}
}

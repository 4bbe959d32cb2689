package gpu

import "slices"

// DeviceAccess lists the GPU device nodes that a process may open, as its cgroup
// configures them.
type DeviceAccess struct {
	// Confined is false if no restriction was found: the process may open every
	// GPU. Minors and Caps are then nil.
	Confined bool
	// Minors are the N of /dev/nvidiaN, sorted. They include GPUs that are
	// divided into MIG devices.
	Minors []int
	// Caps are the N of /dev/nvidia-caps/nvidia-capN. They distinguish the MIG
	// devices of one GPU.
	Caps []int
}

// CanOpen reports whether the process may use the device. A MIG device needs the
// node of its GPU and those of both of its instances.
func (a DeviceAccess) CanOpen(d Device) bool {
	if !slices.Contains(a.Minors, d.Minor) {
		return false
	}
	return d.MIG == nil || slices.Contains(a.Caps, d.MIG.GPUInstanceCap) && slices.Contains(a.Caps, d.MIG.ComputeInstanceCap)
}

package gpu

import "slices"

// DeviceAccess is which GPU nodes a process may open, as its cgroup has it.
type DeviceAccess struct {
	// Confined is false where nothing is seen to keep the process from any
	// GPU; Minors and Caps are then nil.
	Confined bool
	// Minors are the N of /dev/nvidiaN, in order. A GPU that is cut into MIG
	// devices counts.
	Minors []int
	// Caps are the N of /dev/nvidia-caps/nvidia-capN, by which the MIG devices
	// among them are told apart.
	Caps []int
}

// CanOpen reports whether the device may be opened: a MIG device takes the nodes
// of its GPU and of both its instances.
func (r DeviceAccess) CanOpen(d Device) bool {
	if !slices.Contains(r.Minors, d.Minor) {
		return false
	}
	return d.MIG == nil || slices.Contains(r.Caps, d.MIG.GPUInstanceCap) && slices.Contains(r.Caps, d.MIG.ComputeInstanceCap)
}

package gpu

// Reach is which GPU nodes a process may open, as its cgroup has it.
type Reach struct {
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

package fit

// scoreSpread prefers the agent with the most free GPUs, then CPUs, so that a fault of one agent ends few tasks.
func scoreSpread(r *agentCapacity, gpuMilli int64) int64 {
	return 1 + min(gpuMilli, 1<<gpuBits-1)<<cpuBits + min(max(r.free.cpus, 0), 1<<cpuBits-1)
}

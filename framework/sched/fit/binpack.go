package fit

// scoreBinpack prefers the agent with the fewest free GPUs, then CPUs. What is
// free elsewhere stays together for large tasks.
func scoreBinpack(r *agentCapacity, gpuMilli int64) int64 {
	return maxAgentScore + 1 - scoreSpread(r, gpuMilli)
}

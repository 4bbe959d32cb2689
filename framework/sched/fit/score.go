package fit

// A score that does not depend on the task has GPU thousandths above CPU
// thousandths. Both are capped: at 16,777 GPUs and 68 million CPUs.
const (
	gpuBits       = 24
	cpuBits       = 36
	maxAgentScore = 1 << (gpuBits + cpuBits)
)

func scoreSpread(r *agentCapacity, gpuMilli int64) int64 {
	return 1 + min(gpuMilli, 1<<gpuBits-1)<<cpuBits + min(max(r.free.cpus, 0), 1<<cpuBits-1)
}

// scoreBinpack prefers the agent with the fewest free GPUs, then CPUs. What is
// free elsewhere stays together for large tasks.
func scoreBinpack(r *agentCapacity, gpuMilli int64) int64 {
	return maxAgentScore + 1 - scoreSpread(r, gpuMilli)
}

// scoreTopology prefers the agent whose devices for the task have the most NVLinks
// between them, then one NUMA node, then those that break the fewest groups, and
// then the agent with the least free.
func scoreTopology(c *Cluster, i int, cl *demandClass) int64 {
	const links, broken = 12, 3
	if cl.gpus == 0 {
		return c.agentScores[i]
	}
	r := &c.capacities[i]
	k := c.agentScores[i] >> (links + 1 + broken)
	switch {
	case cl.wantsShares && !r.hardware.Divisible:
		return c.agentScores[i] + c.sharePreference(i, cl)
	case cl.wantsShares || !r.hasDeviceIDs:
		return k + 1 // same resolution as for whole devices
	}
	p := c.chooseDevices(i, cl)
	good := min(int64(p.Links), 1<<links-1) << 1
	if p.OneNUMANode && cl.gpus > 1 {
		good++
	}
	good = good<<broken + int64(1<<broken-1-min(p.BrokenGroups, 1<<broken-1))
	return good<<(gpuBits+cpuBits-links-1-broken) + k + 1
}

// sharePreference returns the points that binpack and spread add to an agent's score for
// shares of devices: binpack prefers a device that is in use, spread one that is not.
func (c *Cluster) sharePreference(i int, cl *demandClass) int64 {
	r := &c.capacities[i]
	if !cl.wantsShares || r.hardware.Divisible || c.sharesOf(r)[c.chooseShareSlots(i, cl)[0]].isUnused() != c.policy.prefersRoomy {
		return 0
	}
	return maxAgentScore
}

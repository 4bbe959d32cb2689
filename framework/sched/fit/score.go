package fit

// A plain rank has GPU thousandths above CPU thousandths. Agents with more
// than 16,777 GPUs or 68 million CPUs compare as if they had as many.
const (
	gpuBits       = 24
	cpuBits       = 36
	maxAgentScore = 1 << (gpuBits + cpuBits)
)

func scoreSpread(r *agentCapacity, gpuMilli int64) int64 {
	return 1 + min(gpuMilli, 1<<gpuBits-1)<<cpuBits + min(max(r.free.cpus, 0), 1<<cpuBits-1)
}

// scoreBinpack prefers the agent with the fewest free GPUs, then CPUs: what is
// left free elsewhere stays together for tasks that want much.
func scoreBinpack(r *agentCapacity, gpuMilli int64) int64 {
	return maxAgentScore + 1 - scoreSpread(r, gpuMilli)
}

// refreshAgent brings up to date what is known of an agent whatever the task.
func (c *Cluster) refreshAgent(i int) {
	r := &c.capacities[i]
	c.agentScores[i] = c.policy.scoreState(r, c.idleMilli(r))
	c.hints[i] = newCapacityHint(r.free.cpus, r.freeGPUs()+min(r.partialSlots, 1))
	if c.index.fragmentation.enabled {
		r.fragmentation = c.fragmentationOf(r)
	}
}

// scoreAgent says how good an agent is for one task of the class: more is better,
// and 0 is that it does not fit. Work without GPUs goes to agents without,
// whatever the policy.
func (c *Cluster) scoreAgent(i int, cl *demandClass) int64 {
	if !c.fitsTask(i, cl) {
		return 0
	}
	var k int64
	if c.policy.scoreTask != nil {
		k = c.policy.scoreTask(c, i, cl)
	} else if k = c.agentScores[i]; cl.wantsShares && c.index.hasSharedDevices {
		k += c.sharePreference(i, cl)
	}
	if cl.gpus == 0 && !c.capacities[i].hardware.hasGPUs {
		k += maxAgentScore
	}
	return k
}

// scoreTopology prefers the agent whose devices for the task have the most links
// among them, then one NUMA node, then those that break the fewest groups,
// and then the fullest.
func scoreTopology(c *Cluster, i int, cl *demandClass) int64 {
	const links, broken = 12, 3
	if cl.gpus == 0 {
		return c.agentScores[i]
	}
	r := &c.capacities[i]
	k := c.agentScores[i] >> (links + 1 + broken)
	switch {
	case cl.wantsShares && !r.hardware.divisible:
		return c.agentScores[i] + c.sharePreference(i, cl)
	case cl.wantsShares || !r.hasDeviceIDs:
		return k + 1 // as coarse as what is seen of whole devices
	}
	p := c.chooseDevices(i, cl)
	good := min(int64(p.links), 1<<links-1) << 1
	if p.oneNUMANode && cl.gpus > 1 {
		good++
	}
	good = good<<broken + int64(1<<broken-1-min(p.brokenGroups, 1<<broken-1))
	return good<<(gpuBits+cpuBits-links-1-broken) + k + 1
}

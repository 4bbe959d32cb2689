package fit

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

package fit

// A score that does not depend on the task has thousandths of GPUs above thousandths of CPUs:
// both are capped, at 16,777 GPUs and 68 million CPUs.
const (
	gpuBits       = 24
	cpuBits       = 36
	maxAgentScore = 1 << (gpuBits + cpuBits)
)

// sharePreference returns the points that binpack and spread add to an agent's score for
// shares of devices: binpack prefers a device that is in use, spread one that is not.
func (c *Cluster) sharePreference(i int, cl *demandClass) int64 {
	r := &c.capacities[i]
	if !cl.wantsShares || r.hardware.Divisible || c.sharesOf(r)[c.chooseShareSlots(i, cl)[0]].isUnused() != c.policy.prefersRoomy {
		return 0
	}
	return maxAgentScore
}

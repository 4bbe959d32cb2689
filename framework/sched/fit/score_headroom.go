package fit

import "math"

// The policy headroom is FGD with three additions.
//
// FGD counts idle GPUs as usable for a typical task if the agent's CPUs suffice for one such task. If the CPUs do not
// suffice for as many tasks as the GPUs could run, GPUs stay idle. So the GPUs that lack CPUs count as unusable, with
// the weight cpuStarvationWeight.
//
// FGD values all models equally as long as each has room. GPUs of a model that many typical tasks require cost up to
// scarcityWeight points of a score, so that tasks for any model use other models first.
//
// Typical tasks do not represent the few that are larger. If few agents have the largest size, an idle one of them
// costs sizeWeight.
const (
	cpuStarvationWeight = 0.07
	scarcityWeight      = 8
	sizeWeight          = 1
)

// scoreHeadroom is FGD's score with CPUs taken into account, minus the cost of
// scarce GPUs and of the agent's size. It only ranks: a scarce agent still gets
// the task if no other fits.
func scoreHeadroom(c *Cluster, i int, cl *demandClass) int64 {
	f := c.fragmentation
	if !f.enabled {
		return scoreFragmentation(c, i, cl)
	}
	r := &c.capacities[i]
	k := scoreFragmentation(c, i, cl) + scarcityWeight + sizeWeight
	if cl.gpus > 0 {
		k -= int64(math.Round(scarcityWeight * f.scarcityOf(r.hardware, cl.wantsShares && f.hasSharedDevices)))
	}
	if f.largestAgents.isIdleMatch(r) {
		k -= sizeWeight
	}
	return k
}

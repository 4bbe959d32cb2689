package fit

import "math"

// The policy headroom is FGD with four additions, each in whole points of FGD's score, which has 100.
//
// FGD counts idle GPUs as usable for a typical task if the agent's CPUs suffice for one such task. If typical tasks in
// their usual mix would exhaust the CPUs first, GPUs stay idle: they are starved. Each GPU that a task starves costs
// starvationWeight points, and each GPU for which it leaves more CPUs gains as many. The points are outside of FGD's
// score since that levels off at changes of few GPUs, so that the score of tasks with many CPUs would be the same on all
// agents.
//
// FGD counts a part of a GPU as usable for a typical task that fits it, whatever that task leaves of it. A share costs what it
// spoils of its GPU's worth, packingWeight points for a GPU: see remainderWorth.
//
// FGD values all models equally as long as each has room. GPUs of a model that many typical tasks require cost up to
// scarcityWeight points, so that tasks for any model use other models first. Only typical tasks that still fit the agent
// count: what is left there after their CPUs are taken is best used by tasks for any model.
//
// Typical tasks do not represent the few that are larger. If few agents have the largest size, an idle one of them costs
// scarcityWeight points, and more if typical tasks that only they serve would take more GPUs than they have: see
// costOfLargest.
const (
	starvationWeight    = 8
	maxStarvationPoints = 200
	packingWeight       = 100
	scarcityWeight      = 8
	maxLargestPoints    = 200
)

// scoreHeadroom is FGD's score, plus a constant that keeps it positive, minus the points above. It only ranks: a scarce
// agent still gets the task if no other fits.
func scoreHeadroom(c *Cluster, i int, cl *demandClass) int64 {
	f := c.fragmentation
	score := scoreFragmentation(c, i, cl)
	if !f.enabled {
		return score
	}
	r := &c.capacities[i]
	p := f.findProfile(r, &r.free)
	score += maxStarvationPoints + packingWeight + scarcityWeight + maxLargestPoints - c.starvationPoints(r, p, cl)
	if cl.gpus > 0 {
		score -= int64(math.Round(scarcityWeight * p.scarcityFor(cl.wantsShares && f.hasSharedDevices)))
	}
	if f.largestAgents.isIdleMatch(r) {
		score -= f.largestPoints
	}
	return score
}

// starvationPoints returns the cost of the GPUs that lack CPUs after the task was placed on the agent and did not before;
// negative if there are fewer than before.
func (c *Cluster) starvationPoints(r *agentCapacity, p *usageProfile, cl *demandClass) int64 {
	mix, memory := &p.mix.whole, int64(0)
	if r.shareOffset >= 0 && !r.hardware.Divisible {
		mix, memory = &p.mix.shares, c.fragmentation.sharedDeviceMiB
	}
	if mix.cpus == 0 {
		return 0
	}
	idle := c.idleMilli(r)
	before := mix.starvedMilli(r.free.cpus, idle)
	after := mix.starvedMilli(r.free.cpus-cl.need.cpus, idle-cl.gpuMilliIf(memory))
	starved := (after - before) / wholeDevice * mix.weight / c.fragmentation.totalWeight
	return int64(math.Round(min(max(starvationWeight*starved, -maxStarvationPoints), maxStarvationPoints)))
}

// packingPoints returns the cost of a share that leaves so much of a slot: what it spoils of the slot's worth, beyond the worth
// of what it takes. It is 0 for other policies.
func (c *Cluster) packingPoints(r *agentCapacity, slot int, left shareAmount) int64 {
	w := c.fragmentation.remainders
	if w == nil {
		return 0
	}
	before, after := c.remainderMilli(r, slot, c.sharesOf(r)[slot].free), c.remainderMilli(r, slot, left)
	return int64(math.Round(packingWeight * (w.gpus[before] - w.gpus[after] - w.gpus[before-after])))
}

// starvedMilli returns how many of the idle GPU thousandths lack CPUs if tasks of the mix use them.
func (m *mixedNeeds) starvedMilli(cpus, idleMilli int64) float64 {
	return max(0, float64(idleMilli)-float64(cpus)*m.gpuMilli/m.cpus)
}

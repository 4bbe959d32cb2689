package fit

import "math/bits"

// The policies that Weng et al. compare FGD with ("Beware of Fragmentation", USENIX ATC 2023), scored as in their
// simulator: in whole points, so that many agents are equal and the first by ID wins. Memory has no influence. They
// exist for comparison only.

// The size of the largest agent in the published scores.
const (
	largestCPUs = 128_000
	largestGPUs = 8 * wholeDevice
)

// scoreEqually gives all agents the same score.
func scoreEqually(*Cluster, int, *demandClass) int64 { return 1 }

// scoreAlignment prefers the agent whose free CPUs and GPUs have the smallest
// dot product with the task's, as Tetris does.
func scoreAlignment(c *Cluster, i int, cl *demandClass) int64 {
	r := &c.capacities[i]
	cpus := float64(r.free.cpus) / largestCPUs * (float64(cl.need.cpus) / largestCPUs)
	gpus := float64(c.idleMilli(r)) / largestGPUs * (float64(cl.gpuMilli()) / largestGPUs)
	return 1 + int64(100*(1-(cpus+gpus)/2))
}

// scoreBestFit prefers the agent that has the least left after the task. The
// published scores are scaled to 0 to 100 afterwards, which keeps their order.
func scoreBestFit(c *Cluster, i int, cl *demandClass) int64 {
	r := &c.capacities[i]
	left := float64(r.free.cpus-cl.need.cpus)/largestCPUs*0.5 + float64(c.idleMilli(r)-cl.gpuMilli())/largestGPUs*0.5
	return 101 + int64((1-left)*100) // below 0 on agents larger than the published size
}

// scorePacking prefers devices that are shared already, then free ones on an
// agent in use, then the smallest idle agent.
func scorePacking(c *Cluster, i int, cl *demandClass) int64 {
	r := &c.capacities[i]
	free := int64(r.freeGPUs())
	switch {
	case cl.gpus == 0:
		return 1
	case free == int64(len(r.hardware.Slots)):
		return 1 + max(33-free, free)
	case !cl.wantsShares:
		return 1 + max(50-int64(cl.gpus), 33)
	}
	s := c.chooseShareSlots(i, cl)[0]
	_, left := c.idleMilliOf(r, s, c.sharesOf(r)[s].free)
	if left == wholeDevice {
		return 1 + 50 - 1
	}
	return 1 + max(100-int64(left)*100/wholeDevice/10, 50)
}

// updateTaskMix adds sign to the count of tasks of this class, if the policy uses it. Tasks that ran before the
// cluster was created are not counted.
func (c *Cluster) updateTaskMix(i int, cl *demandClass, sign int) {
	if !c.policy.usesTaskMix || cl.gpus == 0 {
		return
	}
	if c.taskMixes == nil {
		c.taskMixes = make([]map[int32]int, len(c.capacities))
	}
	if c.taskMixes[i] == nil {
		c.taskMixes[i] = map[int32]int{}
	}
	mix, size := c.taskMixes[i], mixSizeOf(cl)
	if mix[size] += sign; mix[size] <= 0 {
		delete(mix, size)
	}
}

func mixSizeOf(cl *demandClass) int32 {
	if cl.wantsShares {
		return 0
	}
	return cl.gpus
}

// scoreClustering prefers an agent whose tasks all take the same number of devices as this one, then one with some
// such tasks, then an idle one. Among those it prefers the agent with the least free.
func scoreClustering(c *Cluster, i int, cl *demandClass) int64 {
	if cl.gpus == 0 {
		return 1
	}
	var mix map[int32]int
	if c.taskMixes != nil {
		mix = c.taskMixes[i]
	}
	above := int64(0)
	switch like := mix[mixSizeOf(cl)] > 0; {
	case like && len(mix) == 1:
		above = 75
	case like:
		above = 50
	case len(mix) == 0:
		above = 25
	}
	return 26 + above + 25*(largestGPUs-c.idleMilli(&c.capacities[i]))/largestGPUs
}

// chooseRandomSlot returns one of the slots with room for the share, by lot.
func chooseRandomSlot(c *Cluster, i int, cl *demandClass) int {
	best, n := -1, 0
	for s := range c.shareSlots(&c.capacities[i], cl) {
		if n++; c.drawLot(n) {
			best = s
		}
	}
	return best
}

// drawLot returns true once in n calls on average. If the nth of several
// candidates replaces the one before it when drawLot(n) is true, each candidate
// has the same chance. Equal seeds draw the same.
func (c *Cluster) drawLot(n int) bool {
	c.draws++
	hi, _ := bits.Mul64(splitMix(c.policy.seed+c.draws*splitMixStep), uint64(n))
	return hi == 0
}

// splitMixStep is the distance between the states of SplitMix64.
const splitMixStep = 0x9e3779b97f4a7c15

// splitMix returns the random number of SplitMix64 for a state.
func splitMix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// drawAgent returns a random agent among those with that score.
func (c *Cluster) drawAgent(scores []int64, score int64) int {
	drawn, n := -1, 0
	for i, s := range scores {
		if s == score {
			if n++; c.drawLot(n) {
				drawn = i
			}
		}
	}
	return drawn
}

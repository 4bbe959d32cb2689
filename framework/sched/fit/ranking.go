package fit

import (
	"encoding/binary"
	"strconv"

	"mesos-gpu/framework/sched/fit/index"
)

// refreshAgent updates the scores and hints of an agent that do not depend on a
// task.
func (c *Cluster) refreshAgent(i int) {
	r := &c.capacities[i]
	c.agentScores[i] = c.policy.scoreState(r, c.idleMilli(r))
	c.hints[i] = newCapacityHint(r.free.cpus, r.freeGPUs()+max(r.idleShared, min(r.partialSlots, 1)))
	if c.fragmentation.enabled {
		r.fragmentation = c.fragmentationOf(r)
	}
}

// refreshFragmentation measures the fragmentation of all agents.
func (c *Cluster) refreshFragmentation() {
	c.beginScan()
	for i := range c.capacities {
		r := &c.capacities[i] // agents in the same state are measured once
		r.fragmentation = c.index.fragmentationScan.Get(c.stateNumberOf(r), func() float64 { return c.fragmentationOf(r) })
	}
}

// agentChanged updates everything derived from what an agent has free. Every function that changes a capacity calls
// it.
func (c *Cluster) agentChanged(i int) {
	r := &c.capacities[i]
	r.wholeGPUs, r.stateGeneration = int32(c.wholeMask(r).Len()), 0
	c.countPartialSlots(r)
	c.refreshAgent(i)
	c.rankings.AgentChanged(i)
}

// rankAgents returns the current score of each agent for the class.
func (c *Cluster) rankAgents(cl *demandClass) *index.Ranking {
	return c.rankings.Get(cl.id,
		func(scores []int64) { c.selectAgent(cl, scores) },
		func(i int) int64 { return c.scoreAgent(i, cl) },
	)
}

// beginScan starts to score agents for another class or after a change.
func (c *Cluster) beginScan() {
	c.index.states.Shrink(len(c.capacities))
	c.index.scoreScan.Begin()
	c.index.fragmentationScan.Begin()
}

// stateNumberOf returns a number that agents with the same hardware and the
// same free resources share. Ports, constraints and UUIDs do not matter to it.
func (c *Cluster) stateNumberOf(r *agentCapacity) int32 {
	s := &c.index.states
	if r.stateGeneration == s.Generation() {
		return r.stateNumber
	}
	b := s.Scratch()
	for _, n := range [...]int64{int64(r.hardware.ID), int64(r.scalarGPUs), int64(r.reservation), r.free.cpus, r.free.mem, r.free.disk} {
		b = binary.AppendVarint(b, n)
	}
	for _, m := range c.wholeMask(r) {
		b = binary.LittleEndian.AppendUint64(b, m)
	}
	if r.hasDeviceIDs {
		b = append(b, 'N')
	}
	if r.partialSlots > 0 || !r.hardware.Divisible {
		for _, s := range c.sharesOf(r) {
			b = binary.AppendVarint(b, int64(s.free.mem))
			if !r.hardware.Divisible {
				for _, n := range [...]int32{s.free.cores, s.total.mem, s.total.cores} {
					b = binary.AppendVarint(b, int64(n))
				}
				b = strconv.AppendBool(b, s.isTotalListed)
			}
		}
	}
	r.stateNumber, r.stateGeneration = s.Number(b), s.Generation()
	return r.stateNumber
}

// bestAgent returns the agent with the highest score, or -1 if none fits. If several have it, it returns the first,
// or a random one if the policy draws lots.
func (c *Cluster) bestAgent(cl *demandClass) int {
	ranking := c.rankAgents(cl)
	best := ranking.Best()
	if c.policy.drawsLots && best >= 0 {
		return c.drawAgent(ranking.Scores(), ranking.Scores()[best])
	}
	return best
}

// BestScore returns the score of the best agent for one task of the demand, or
// 0 if none fits. It ignores constraints that depend on the job's other tasks.
func (c *Cluster) BestScore(d *Demand) int64 {
	class := c.classifyDemand(d)
	i := c.bestAgent(class)
	if i < 0 {
		return 0
	}
	return c.rankAgents(class).Scores()[i]
}

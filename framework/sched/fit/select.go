package fit

import (
	"math/bits"
)

// PlaceTasks places up to n equal tasks and takes what they need. Each task goes to the agent with the highest score,
// the first by ID if several have it. If it returns fewer placements than n, no agent fits one more task.
//
//  1. Classify the demand: equal demands share rankings and match results.
//  2. If constraints depend on the job's other tasks, place by them.
//  3. Score each agent that fits: scoreAgent.
//  4. Take the best agent, choose devices and ports on it, and repeat.
func (c *Cluster) PlaceTasks(d *Demand, n int) []Placement {
	if n <= 0 {
		return nil
	}
	class := c.classifyDemand(d)
	if len(class.jobConstraints) > 0 {
		return c.placePerJob(d, class, n)
	}
	next := c.bestAgent
	if n == 1 && class.uses == 0 && !c.policy.drawsLots {
		class.uses++ // a demand that is placed once needs no ranking
		next = c.scanForBest
	}
	var placements []Placement
	for len(placements) < n {
		agent := next(class)
		if agent < 0 {
			break
		}
		if placements == nil {
			placements = make([]Placement, 0, min(n, 64))
		}
		placements = append(placements, c.takePlacement(agent, class))
	}
	return placements
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

// bestAgent returns the agent with the highest score, or -1 if none fits. If several have it, it returns the first,
// or a random one if the policy draws lots.
func (c *Cluster) bestAgent(cl *demandClass) int {
	ranking := c.rankAgents(cl)
	best := ranking.Best(c.index.roleAgents(cl.roleID))
	if c.policy.drawsLots && best >= 0 {
		return c.drawAgent(ranking.Scores(), ranking.Scores()[best])
	}
	return best
}

// scanForBest returns the same agent as bestAgent, and stores no ranking.
func (c *Cluster) scanForBest(cl *demandClass) int {
	best, most := -1, int64(0)
	c.beginScan()
	// Then the score of an agent that fits is known before the agent is checked.
	scoreKnown := c.policy.scoreTask == nil && cl.gpus > 0 && !(cl.wantsShares && c.index.hasSharedDevices)
	minimum := cl.minimum // a local copy: the loop visits every agent of the role
	for _, i := range c.index.roleAgents(cl.roleID) {
		if h := c.hints[i]; h.cpus < minimum.cpus || h.gpus < minimum.gpus || scoreKnown && c.agentScores[i] <= most {
			continue
		}
		if score := c.scoreInScan(int(i), cl); score > most {
			best, most = int(i), score
		}
	}
	return best
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

// drawLot returns true once in n calls on average. If the nth of several
// candidates replaces the one before it when drawLot(n) is true, each candidate
// has the same chance. Equal seeds draw the same.
func (c *Cluster) drawLot(n int) bool {
	c.draws++
	x := c.policy.seed + c.draws*0x9e3779b97f4a7c15 // SplitMix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	hi, _ := bits.Mul64(x^x>>31, uint64(n))
	return hi == 0
}

// takePlacement takes what one task needs of an agent that fits, and returns it.
func (c *Cluster) takePlacement(i int, cl *demandClass) Placement {
	r := &c.capacities[i]
	placed := Placement{Agent: i, GPUs: int(cl.gpus)}
	c.updateTaskMix(i, cl, 1)
	r.free = r.free.minus(cl.need)
	if cl.portCount > 0 {
		placed.Ports, r.ports = takePorts(r.ports, int(cl.portCount), cl.hostPorts, c.index.avoidedPorts)
		r.portCount -= cl.portCount
	}
	switch {
	case cl.gpus == 0:
	case cl.wantsShares:
		placed.Shares = c.takeShares(i, cl)
	default:
		if r.hasDeviceIDs {
			placed.DeviceIDs = make([]string, cl.gpus)
			for at, s := range c.chooseDevices(i, cl).slots {
				c.takeSlot(r, s)
				placed.DeviceIDs[at] = r.uuids[s]
			}
		}
		r.scalarGPUs -= cl.gpus
	}
	c.agentChanged(i)
	return placed
}

// chooseDevices returns the whole devices for one task on an agent that fits and
// that has device IDs.
func (c *Cluster) chooseDevices(i int, cl *demandClass) chosenDevices {
	r := &c.capacities[i]
	candidates := c.candidateSlots(r, cl, cl.requirement.matchOn(r.hardware))
	return c.index.chooseDevices(r.hardware, int(cl.gpus), candidates, c.wholeMask(r), cl.requirement.topology)
}

// UndoPlacements frees what PlaceTasks took for the demand.
func (c *Cluster) UndoPlacements(d *Demand, placements []Placement) {
	need, cl := d.Amount.toMilli(), c.classifyDemand(d)
	for i := range placements {
		s := &placements[i]
		c.updateTaskMix(s.Agent, cl, -1)
		r := &c.capacities[s.Agent]
		r.free = r.free.plus(need)
		c.returnPorts(r, s.Ports)
		c.returnShares(r, s.Shares)
		if len(s.Shares) == 0 {
			r.scalarGPUs += int32(s.GPUs)
		}
		for _, id := range s.DeviceIDs {
			c.freeSlot(r, slotOf(r.uuids, id))
		}
		c.agentChanged(s.Agent)
	}
}

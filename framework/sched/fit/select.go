package fit

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

package fit

// TaskCapacity is for how many tasks of one demand there is room, kept up to date as
// agents get more. It is for demands of which a task on one agent leaves the
// others as they are, and one more or less on the same agent can be told by
// dividing: whoever asks when n tasks fit then need not try to place them.
type TaskCapacity struct {
	// Tasks is how many find places, those beyond Most left out of each agent.
	Tasks        int
	maxPerAgent  int
	cluster      *Cluster
	class        *demandClass
	tasksByAgent []int32 // tasks by agent
}

// CountTasks counts for how many tasks of the demand there is room, at most so
// many an agent. It is not ok for a demand that numbers do not tell about: of
// parts of devices, of devices that hang together, of ports by number, with
// constraints about its job's other tasks, and of one that keeps off what is
// reserved.
func (c *Cluster) CountTasks(d *Demand, most int) (n TaskCapacity, ok bool) {
	cl := c.classifyDemand(d)
	if cl.avoidsReserved || cl.wantsShares || cl.hostPorts != nil || cl.requirement.topology != "" || len(cl.jobConstraints) > 0 {
		return n, false
	}
	if len(c.countScratch) != len(c.capacities) {
		c.countScratch = make([]int32, len(c.capacities))
	}
	n = TaskCapacity{maxPerAgent: most, cluster: c, class: cl, tasksByAgent: c.countScratch}
	for _, i := range c.index.roleAgents(cl.roleID) {
		n.tasksByAgent[i] = 0
		n.UpdateAgent(int(i))
	}
	return n, true
}

// UpdateAgent counts an agent of the demand's role anew.
func (n *TaskCapacity) UpdateAgent(i int) {
	now := int32(n.cluster.countTasksOn(i, n.class, n.maxPerAgent))
	n.Tasks += int(now - n.tasksByAgent[i])
	n.tasksByAgent[i] = now
}

// countTasksOn is how many tasks of a class that Count is for the agent holds, at
// most so many.
func (c *Cluster) countTasksOn(i int, cl *demandClass, most int) int {
	if !c.hints[i].allows(cl.minimum) || !c.fitsTask(i, cl) {
		return 0
	}
	n := c.maxTasksOn(i, cl, most)
	if cl.gpus > 0 {
		n = min(n, c.availableGPUs(i, cl)/int(cl.gpus))
	}
	return n
}

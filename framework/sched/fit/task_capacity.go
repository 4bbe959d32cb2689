package fit

// TaskCapacity counts how many tasks of one demand fit. The count is updated agent by agent. It supports demands for
// which a task on one agent does not affect the other agents, and for which one division per agent computes the
// count. It is cheaper than PlaceTasks to find out when n tasks fit.
type TaskCapacity struct {
	// Tasks is how many tasks fit, at most maxPerAgent on each agent.
	Tasks       int
	maxPerAgent int
	// cluster and class are the arguments of CountTasks. The count is valid while only agents change for which
	// UpdateAgent is called.
	cluster *Cluster
	class   *demandClass
	// tasksByAgent is the part of Tasks on each agent, as of the last UpdateAgent. It is a buffer of the cluster.
	tasksByAgent []int32
}

// CountTasks counts how many tasks of the demand fit, up to most on each agent. It returns false for demands that it
// cannot count: with GPUs of the same type, shares, a topology, host ports, constraints that depend on the job's other
// tasks, or AvoidReserved.
func (c *Cluster) CountTasks(d *Demand, most int) (n TaskCapacity, ok bool) {
	cl := c.classifyDemand(d)
	if d.Request.NeedsSameType() || cl.avoidsReserved || cl.wantsShares || cl.hostPorts != nil || cl.requirement.Topology != "" || len(cl.jobConstraints) > 0 {
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

// TasksOn returns how many tasks fit on one agent.
func (c *TaskCapacity) TasksOn(i int) int { return int(c.tasksByAgent[i]) }

// UpdateAgent counts the tasks on one agent again.
func (c *TaskCapacity) UpdateAgent(i int) {
	now := int32(c.cluster.countTasksOn(i, c.class, c.maxPerAgent))
	c.Tasks += int(now - c.tasksByAgent[i])
	c.tasksByAgent[i] = now
}

// countTasksOn returns how many tasks of a countable class the agent has room
// for, up to most.
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

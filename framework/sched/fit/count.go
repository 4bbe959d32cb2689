package fit

// Count is for how many tasks of one demand there is room, kept up to date as
// agents get more. It is for demands of which a task on one agent leaves the
// others as they are, and one more or less on the same agent can be told by
// dividing: whoever asks when n tasks fit then need not try to place them.
type Count struct {
	// Tasks is how many find places, those beyond Most left out of each agent.
	Tasks int
	most  int
	c     *Cluster
	cl    *class
	each  []int32 // tasks by agent
}

// Count counts for how many tasks of the demand there is room, at most so
// many an agent. It is not ok for a demand that numbers do not tell about: of
// parts of devices, of devices that hang together, of ports by number, with
// constraints about its job's other tasks, and of one that keeps off what is
// reserved.
func (c *Cluster) Count(d *Demand, most int) (n Count, ok bool) {
	cl := c.class(d)
	if cl.beyond || cl.shared || cl.hosts != nil || cl.wish.topology != "" || len(cl.perJob) > 0 {
		return n, false
	}
	if len(c.counts) != len(c.rooms) {
		c.counts = make([]int32, len(c.rooms))
	}
	n = Count{most: most, c: c, cl: cl, each: c.counts}
	for _, i := range c.world.members(cl.role) {
		n.each[i] = 0
		n.Update(int(i))
	}
	return n, true
}

// Update counts an agent of the demand's role anew.
func (n *Count) Update(i int) {
	now := int32(n.c.tasks(i, n.cl, n.most))
	n.Tasks += int(now - n.each[i])
	n.each[i] = now
}

// tasks is how many tasks of a class that Count is for the agent holds, at
// most so many.
func (c *Cluster) tasks(i int, cl *class, most int) int {
	if g := c.glances[i]; g.cpus < cl.least.cpus || g.gpus < cl.least.gpus || !c.fits(i, cl) {
		return 0
	}
	n := c.atMost(i, cl, most)
	if cl.gpus > 0 {
		n = min(n, c.available(i, cl)/int(cl.gpus))
	}
	return n
}

package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// clusters are the agents, apart by the policy of the role that they are
// offered to: a job's places are all in its own role's. Agents go by their
// index in all of them together.
type clusters struct {
	agents []fit.Agent
	parts  []*fit.Cluster
	roles  map[string]int // role → part; of any other, the first
	byRole map[string][]int
	homes  []home  // by agent; nil where there is one part
	global [][]int // by part and index there
}

// home is where an agent is.
type home struct{ part, index int }

func newClusters(agents []fit.Agent, p *Policy, now time.Time) *clusters {
	c := &clusters{roles: map[string]int{}}
	policies := []string{p.Fit.Name}
	for i := range p.Roles {
		name := cmp.Or(p.Roles[i].Policy, p.Fit.Name)
		at := slices.Index(policies, name)
		if at < 0 {
			at, policies = len(policies), append(policies, name)
		}
		c.roles[p.Roles[i].Name] = at
	}
	split := c.split(agents, len(policies))
	for at, name := range policies {
		policy := p.Fit
		policy.Name = name
		c.parts = append(c.parts, fit.NewCluster(split[at], policy, now))
	}
	c.join()
	c.byRole = map[string][]int{}
	for i := range c.agents {
		c.byRole[c.agents[i].Role] = append(c.byRole[c.agents[i].Role], i)
	}
	return c
}

// split puts each agent to its part.
func (c *clusters) split(agents []fit.Agent, parts int) [][]fit.Agent {
	if parts == 1 {
		return [][]fit.Agent{agents}
	}
	split := make([][]fit.Agent, parts)
	for i := range agents {
		at := c.roles[agents[i].Role]
		split[at] = append(split[at], agents[i])
	}
	return split
}

// renew is fit.Cluster.Renew for all parts. If it could not, they are of no
// use any more.
func (c *clusters) renew(changed []fit.Agent, p *Policy, now time.Time) bool {
	split := c.split(changed, len(c.parts))
	for at, part := range c.parts {
		if !part.Renew(split[at], p.Fit.Typical, now) {
			return false
		}
	}
	for i, h := range c.homes {
		c.agents[i] = c.parts[h.part].Agents()[h.index]
	}
	return true
}

// closing reports whether an agent is to go away for maintenance.
func (c *clusters) closing() bool { return slices.ContainsFunc(c.parts, (*fit.Cluster).Closing) }

// join numbers the agents of all parts, by id and role as each part does.
func (c *clusters) join() {
	c.agents = c.parts[0].Agents()
	if len(c.parts) == 1 {
		return
	}
	for at, part := range c.parts {
		c.global = append(c.global, make([]int, len(part.Agents())))
		for i := range part.Agents() {
			c.homes = append(c.homes, home{at, i})
		}
	}
	agent := func(h home) *fit.Agent { return &c.parts[h.part].Agents()[h.index] }
	slices.SortStableFunc(c.homes, func(x, y home) int {
		a, b := agent(x), agent(y)
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Role, b.Role))
	})
	c.agents = make([]fit.Agent, len(c.homes))
	for i, h := range c.homes {
		c.agents[i], c.global[h.part][h.index] = *agent(h), i
	}
}

// of is the part that has a role's agents.
func (c *clusters) of(role string) *fit.Cluster { return c.parts[c.roles[role]] }

func (c *clusters) home(i int) (*fit.Cluster, int) {
	if c.homes == nil {
		return c.parts[0], i
	}
	return c.parts[c.homes[i].part], c.homes[i].index
}

func (c *clusters) Fill(d *fit.Demand, n int) []fit.Spot {
	spots := c.of(d.Role).Fill(d, n)
	if c.homes != nil {
		for i := range spots {
			spots[i].Agent = c.global[c.roles[d.Role]][spots[i].Agent]
		}
	}
	return spots
}

func (c *clusters) Undo(d *fit.Demand, spots []fit.Spot) {
	if c.homes != nil {
		spots = slices.Clone(spots)
		for i := range spots {
			spots[i].Agent = c.homes[spots[i].Agent].index
		}
	}
	c.of(d.Role).Undo(d, spots)
}

func (c *clusters) Clone() *clusters {
	d := *c
	d.parts = make([]*fit.Cluster, len(c.parts))
	for i, part := range c.parts {
		d.parts[i] = part.Clone()
	}
	return &d
}

// copyFrom puts all parts into the state of others', in the memory they have.
func (c *clusters) copyFrom(o *clusters) {
	c.be(o)
	for i, part := range c.parts {
		part.CopyFrom(o.parts[i])
	}
}

// focus is copyFrom for who asks about one role alone.
func (c *clusters) focus(o *clusters, role string) {
	c.be(o)
	c.of(role).Focus(o.of(role), role)
}

// be makes it one of the same agents, whose parts' state is yet to come.
func (c *clusters) be(o *clusters) {
	parts := c.parts
	for len(parts) < len(o.parts) {
		parts = append(parts, &fit.Cluster{})
	}
	*c = *o
	c.parts = parts[:len(o.parts)]
}

func (c *clusters) Explain(d *fit.Demand) fit.Shortage { return c.of(d.Role).Explain(d) }

func (c *clusters) Useful(i int, d *fit.Demand) bool {
	part, at := c.home(i)
	return part == c.of(d.Role) && part.Useful(at, d)
}

func (c *clusters) Refusal(i int, d *fit.Demand) string {
	part, at := c.home(i)
	return part.Refusal(at, d)
}

// index finds an agent; -1 if it is not there.
func (c *clusters) index(id, role string) int {
	at := c.of(role).Index(id, role)
	if at < 0 || c.homes == nil {
		return at
	}
	return c.global[c.roles[role]][at]
}

// Spare has all parts leave the ports: see fit.Cluster.Spare.
func (c *clusters) Spare(ports []int) {
	for _, part := range c.parts {
		part.Spare(ports)
	}
}

func (c *clusters) Release(agentID, role string, h fit.Holding) {
	c.of(role).Release(agentID, role, h)
}

func (c *clusters) releaseAt(i int, h fit.Holding) {
	part, at := c.home(i)
	part.ReleaseAt(at, h)
}

func (c *clusters) Reserve(agentID, role string, h fit.Holding) {
	c.of(role).Reserve(agentID, role, h)
}

package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// partitionedCluster are the agents, apart by the policy of the role that they are
// offered to: a job's places are all in its own role's. Agents go by their
// index in all of them together.
type partitionedCluster struct {
	agents      []fit.AgentResources
	partitions  []*fit.Cluster
	partitionOf map[string]int // role → part; of any other, the first
	byRole      map[string][]int
	locations   []agentLocation // by agent; nil where there is one part
	global      [][]int         // by part and index there
}

// agentLocation is where an agent is.
type agentLocation struct{ partition, index int }

func newPartitionedCluster(agents []fit.AgentResources, p *Policy, now time.Time) *partitionedCluster {
	c := &partitionedCluster{partitionOf: map[string]int{}}
	policies := []string{p.Fit.Name}
	for i := range p.Roles {
		name := cmp.Or(p.Roles[i].FitPolicy, p.Fit.Name)
		at := slices.Index(policies, name)
		if at < 0 {
			at, policies = len(policies), append(policies, name)
		}
		c.partitionOf[p.Roles[i].Name] = at
	}
	split := c.splitByPartition(agents, len(policies))
	for at, name := range policies {
		policy := p.Fit
		policy.Name = name
		c.partitions = append(c.partitions, fit.NewCluster(split[at], policy, now))
	}
	c.numberAgents()
	c.byRole = map[string][]int{}
	for i := range c.agents {
		c.byRole[c.agents[i].Role] = append(c.byRole[c.agents[i].Role], i)
	}
	return c
}

// splitByPartition puts each agent to its part.
func (c *partitionedCluster) splitByPartition(agents []fit.AgentResources, parts int) [][]fit.AgentResources {
	if parts == 1 {
		return [][]fit.AgentResources{agents}
	}
	split := make([][]fit.AgentResources, parts)
	for i := range agents {
		at := c.partitionOf[agents[i].Role]
		split[at] = append(split[at], agents[i])
	}
	return split
}

// updateAgents is fit.Cluster.UpdateAgents for all parts. If it could not, they are of no
// use any more.
func (c *partitionedCluster) updateAgents(changed []fit.AgentResources, p *Policy, now time.Time) bool {
	split := c.splitByPartition(changed, len(c.partitions))
	for at, part := range c.partitions {
		if !part.UpdateAgents(split[at], p.Fit.Typical, now) {
			return false
		}
	}
	for i, h := range c.locations {
		c.agents[i] = c.partitions[h.partition].Agents()[h.index]
	}
	return true
}

// hasMaintenance reports whether an agent is to go away for maintenance.
func (c *partitionedCluster) hasMaintenance() bool {
	return slices.ContainsFunc(c.partitions, (*fit.Cluster).HasMaintenance)
}

// numberAgents numbers the agents of all parts, by id and role as each part does.
func (c *partitionedCluster) numberAgents() {
	c.agents = c.partitions[0].Agents()
	if len(c.partitions) == 1 {
		return
	}
	for at, part := range c.partitions {
		c.global = append(c.global, make([]int, len(part.Agents())))
		for i := range part.Agents() {
			c.locations = append(c.locations, agentLocation{at, i})
		}
	}
	agent := func(h agentLocation) *fit.AgentResources { return &c.partitions[h.partition].Agents()[h.index] }
	slices.SortStableFunc(c.locations, func(x, y agentLocation) int {
		a, b := agent(x), agent(y)
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Role, b.Role))
	})
	c.agents = make([]fit.AgentResources, len(c.locations))
	for i, h := range c.locations {
		c.agents[i], c.global[h.partition][h.index] = *agent(h), i
	}
}

// partitionFor is the part that has a role's agents.
func (c *partitionedCluster) partitionFor(role string) *fit.Cluster {
	return c.partitions[c.partitionOf[role]]
}

func (c *partitionedCluster) locate(i int) (*fit.Cluster, int) {
	if c.locations == nil {
		return c.partitions[0], i
	}
	return c.partitions[c.locations[i].partition], c.locations[i].index
}

func (c *partitionedCluster) fillPlacements(d *fit.Demand, n int) []fit.Placement {
	spots := c.partitionFor(d.Role).PlaceTasks(d, n)
	if c.locations != nil {
		for i := range spots {
			spots[i].Agent = c.global[c.partitionOf[d.Role]][spots[i].Agent]
		}
	}
	return spots
}

func (c *partitionedCluster) undoPlacements(d *fit.Demand, spots []fit.Placement) {
	if c.locations != nil {
		spots = slices.Clone(spots)
		for i := range spots {
			spots[i].Agent = c.locations[spots[i].Agent].index
		}
	}
	c.partitionFor(d.Role).UndoPlacements(d, spots)
}

func (c *partitionedCluster) clone() *partitionedCluster {
	d := *c
	d.partitions = make([]*fit.Cluster, len(c.partitions))
	for i, part := range c.partitions {
		d.partitions[i] = part.Clone()
	}
	return &d
}

// copyState puts all parts into the state of others', in the memory they have.
func (c *partitionedCluster) copyState(o *partitionedCluster) {
	c.adoptAgents(o)
	for i, part := range c.partitions {
		part.CopyFrom(o.partitions[i])
	}
}

// copyRole is copyState for who asks about one role alone.
func (c *partitionedCluster) copyRole(o *partitionedCluster, role string) {
	c.adoptAgents(o)
	c.partitionFor(role).CopyRole(o.partitionFor(role), role)
}

// adoptAgents makes it one of the same agents, whose parts' state is yet to come.
func (c *partitionedCluster) adoptAgents(o *partitionedCluster) {
	parts := c.partitions
	for len(parts) < len(o.partitions) {
		parts = append(parts, &fit.Cluster{})
	}
	*c = *o
	c.partitions = parts[:len(o.partitions)]
}

func (c *partitionedCluster) explainShortage(d *fit.Demand) fit.Shortage {
	return c.partitionFor(d.Role).ExplainShortage(d)
}

func (c *partitionedCluster) isUsefulFor(i int, d *fit.Demand) bool {
	part, at := c.locate(i)
	return part == c.partitionFor(d.Role) && part.IsSuitable(at, d)
}

func (c *partitionedCluster) explainRefusal(i int, d *fit.Demand) string {
	part, at := c.locate(i)
	return part.ExplainRefusal(at, d)
}

// indexOf finds an agent; -1 if it is not there.
func (c *partitionedCluster) indexOf(id, role string) int {
	at := c.partitionFor(role).FindAgent(id, role)
	if at < 0 || c.locations == nil {
		return at
	}
	return c.global[c.partitionOf[role]][at]
}

// avoidPorts has all parts leave the ports: see fit.Cluster.AvoidPorts.
func (c *partitionedCluster) avoidPorts(ports []int) {
	for _, part := range c.partitions {
		part.AvoidPorts(ports)
	}
}

func (c *partitionedCluster) releaseHolding(agentID, role string, h fit.TaskResources) {
	c.partitionFor(role).ReleaseResources(agentID, role, h)
}

func (c *partitionedCluster) releaseAt(i int, h fit.TaskResources) {
	part, at := c.locate(i)
	part.ReleaseAt(at, h)
}

func (c *partitionedCluster) reserveHolding(agentID, role string, h fit.TaskResources) {
	c.partitionFor(role).ReserveResources(agentID, role, h)
}

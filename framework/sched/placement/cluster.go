package placement

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
)

// AgentKey identifies what one agent offers to one role.
type AgentKey struct{ ID, Role string }

// KeyOfAgent returns the key of an agent's resources.
func KeyOfAgent(a *fit.AgentResources) AgentKey { return AgentKey{a.ID, a.Role} }

// Compare orders keys by agent, then by role.
func (k AgentKey) Compare(o AgentKey) int {
	if c := strings.Compare(k.ID, o.ID); c != 0 {
		return c
	}
	return strings.Compare(k.Role, o.Role)
}

// LeftoverFunc returns what an agent that offers nothing now had free when it last offered, and probably still has.
type LeftoverFunc func(*fit.AgentResources) fit.TaskResources

// PartitionedCluster is the cluster in one partition for each fit policy: the agents offered to a role are ranked by
// the policy of that role, and a job runs on agents offered to its own role. Agents have one index in all partitions
// together. A PartitionedCluster belongs to one goroutine.
type PartitionedCluster struct {
	// agents lists the agents of all partitions, sorted by id and role. Their index identifies them in a plan.
	agents []fit.AgentResources
	// partitions are the agents by fit policy, the default policy first. Only they know what is free now.
	partitions []*fit.Cluster
	// partitionOf are the indexes of partitions by role; 0 for roles that are not configured.
	partitionOf map[string]int
	// byRole are the indexes of the agents offered to each role.
	byRole map[string][]int
	// locations and global translate between the index of an agent and its index in its partition. They are nil if
	// there is one partition.
	locations []agentLocation
	global    [][]int
}

type agentLocation struct{ partition, index int }

// NewPartitionedCluster returns a cluster of these agents with all their resources free.
func NewPartitionedCluster(agents []fit.AgentResources, p *Policy, now time.Time) *PartitionedCluster {
	c := &PartitionedCluster{partitionOf: map[string]int{}, byRole: map[string][]int{}}
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
	for i := range c.agents {
		c.byRole[c.agents[i].Role] = append(c.byRole[c.agents[i].Role], i)
	}
	return c
}

// NewClusterOfOffers returns a cluster of what the offers have free and of the input's known agents with nothing free.
// leftoverOf returns what those had free.
func NewClusterOfOffers(offers []*fit.Offer, in *PlanInput, p *Policy) (c *PartitionedCluster, leftoverOf LeftoverFunc) {
	agents := fit.CollectAgents(offers)
	offered := map[AgentKey]bool{}
	for i := range agents {
		a := &agents[i]
		offered[KeyOfAgent(a)] = true
		if in.SharedDevices != nil {
			a.AllShared = in.SharedDevices(a.ID)
		}
	}
	leftovers := map[AgentKey]fit.TaskResources{}
	for _, a := range in.Known {
		if key := KeyOfAgent(&a); !offered[key] {
			leftovers[key] = FreeResources(&a)
			agents = append(agents, WithoutFree(a))
		}
	}
	leftoverOf = func(a *fit.AgentResources) fit.TaskResources { return leftovers[KeyOfAgent(a)] }
	return NewPartitionedCluster(agents, p, in.Now), leftoverOf
}

// WithoutFree returns the agent with nothing free.
func WithoutFree(a fit.AgentResources) fit.AgentResources {
	a.Offers, a.Free, a.GPUs, a.DeviceIDs, a.Shared = nil, fit.Amount{}, 0, nil, nil
	return a
}

// FreeResources returns all that an agent has free, except ports.
func FreeResources(a *fit.AgentResources) fit.TaskResources {
	var shares []gpu.DeviceShare
	for _, s := range a.Shared {
		shares = append(shares, gpu.DeviceShare{UUID: s.UUID, MemMiB: s.MemMiB, Cores: s.Cores})
	}
	return fit.TaskResources{Amount: a.Free, GPUs: a.GPUs, DeviceIDs: a.DeviceIDs, Shares: shares}
}

func (c *PartitionedCluster) splitByPartition(agents []fit.AgentResources, partitions int) [][]fit.AgentResources {
	if partitions == 1 {
		return [][]fit.AgentResources{agents}
	}
	split := make([][]fit.AgentResources, partitions)
	for i := range agents {
		at := c.partitionOf[agents[i].Role]
		split[at] = append(split[at], agents[i])
	}
	return split
}

// numberAgents gives the agents of all partitions common indexes, sorted by id and role as in each partition.
func (c *PartitionedCluster) numberAgents() {
	c.agents = c.partitions[0].Agents()
	if len(c.partitions) == 1 {
		return
	}
	for at, partition := range c.partitions {
		c.global = append(c.global, make([]int, len(partition.Agents())))
		for i := range partition.Agents() {
			c.locations = append(c.locations, agentLocation{at, i})
		}
	}
	agent := func(l agentLocation) *fit.AgentResources { return &c.partitions[l.partition].Agents()[l.index] }
	slices.SortStableFunc(c.locations, func(x, y agentLocation) int {
		a, b := agent(x), agent(y)
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Role, b.Role))
	})
	c.agents = make([]fit.AgentResources, len(c.locations))
	for i, l := range c.locations {
		c.agents[i], c.global[l.partition][l.index] = *agent(l), i
	}
}

// UpdateAgents replaces the agents that have changed. It returns false if it cannot; the cluster is then unusable.
func (c *PartitionedCluster) UpdateAgents(changed iter.Seq[fit.AgentResources], p *Policy, now time.Time) bool {
	for at, partition := range c.partitions {
		own := func(yield func(fit.AgentResources) bool) {
			for a := range changed {
				if c.partitionOf[a.Role] == at && !yield(a) {
					return
				}
			}
		}
		if !partition.UpdateAgents(own, p.Fit.Typical, now) {
			return false
		}
	}
	for i, l := range c.locations {
		c.agents[i] = c.partitions[l.partition].Agents()[l.index]
	}
	return true
}

// CopyState makes c a copy of o and reuses c's memory.
func (c *PartitionedCluster) CopyState(o *PartitionedCluster) {
	c.adoptAgents(o)
	for i, partition := range c.partitions {
		partition.CopyFrom(o.partitions[i])
	}
}

// copyRole makes c a copy of o for the agents of one role, and reuses c's memory. Agents of other roles are not valid
// afterwards.
func (c *PartitionedCluster) copyRole(o *PartitionedCluster, role string) {
	c.adoptAgents(o)
	c.partition(role).CopyRole(o.partition(role), role)
}

// adoptAgents points c at o's agents. The caller then copies the state of each partition that it reads.
func (c *PartitionedCluster) adoptAgents(o *PartitionedCluster) {
	partitions := c.partitions
	for len(partitions) < len(o.partitions) {
		partitions = append(partitions, &fit.Cluster{})
	}
	*c = *o
	c.partitions = partitions[:len(o.partitions)]
}

// Agents returns the agents by index. The caller must not change them.
func (c *PartitionedCluster) Agents() []fit.AgentResources { return c.agents }

// partition returns the partition with the agents of a role.
func (c *PartitionedCluster) partition(role string) *fit.Cluster {
	return c.partitions[c.partitionOf[role]]
}

// locate returns the partition of an agent and its index there.
func (c *PartitionedCluster) locate(i int) (*fit.Cluster, int) {
	if c.locations == nil {
		return c.partitions[0], i
	}
	return c.partitions[c.locations[i].partition], c.locations[i].index
}

// findAgent returns the index of an agent in a role, or -1.
func (c *PartitionedCluster) findAgent(id, role string) int {
	at := c.partition(role).FindAgent(id, role)
	if at < 0 || c.locations == nil {
		return at
	}
	return c.global[c.partitionOf[role]][at]
}

// hasMaintenance reports whether maintenance of an agent is scheduled.
func (c *PartitionedCluster) hasMaintenance() bool {
	return slices.ContainsFunc(c.partitions, (*fit.Cluster).HasMaintenance)
}

// PlaceTasks takes places for up to n tasks on agents of the demand's role.
func (c *PartitionedCluster) PlaceTasks(d *fit.Demand, n int) []fit.Placement {
	places := c.partition(d.Role).PlaceTasks(d, n)
	if c.locations != nil {
		for i := range places {
			places[i].Agent = c.global[c.partitionOf[d.Role]][places[i].Agent]
		}
	}
	return places
}

// UndoPlacements frees places that PlaceTasks took.
func (c *PartitionedCluster) UndoPlacements(d *fit.Demand, places []fit.Placement) {
	if c.locations != nil {
		places = slices.Clone(places)
		for i := range places {
			places[i].Agent = c.locations[places[i].Agent].index
		}
	}
	c.partition(d.Role).UndoPlacements(d, places)
}

// ReleaseTask frees what a running task holds. It ignores a task whose agent is not in the cluster.
func (c *PartitionedCluster) ReleaseTask(r *queue.RunningTask, overhead fit.Amount) {
	c.partition(r.Spec.Role).ReleaseResources(r.AgentID, r.Spec.Role, r.Resources(overhead))
}

// ReleaseLeftovers frees what agents that offer nothing now had free.
func (c *PartitionedCluster) ReleaseLeftovers(leftoverOf LeftoverFunc) {
	for i := range c.agents {
		if a := &c.agents[i]; len(a.Offers) == 0 {
			c.releaseAt(i, leftoverOf(a))
		}
	}
}

func (c *PartitionedCluster) releaseAt(i int, r fit.TaskResources) {
	partition, at := c.locate(i)
	partition.ReleaseAt(at, r)
}

// suitableFor returns a function that reports whether the demand could use an agent of its role with more resources free.
func (c *PartitionedCluster) suitableFor(d *fit.Demand) func(i int) bool {
	own := c.partition(d.Role)
	isSuitable := own.SuitableFor(d)
	return func(i int) bool {
		partition, at := c.locate(i)
		return partition == own && isSuitable(at)
	}
}

// refusalReasons returns a function that returns what an agent lacks for the demand for which it is suitable.
func (c *PartitionedCluster) refusalReasons(d *fit.Demand) func(i int) string {
	reason := c.partition(d.Role).RefusalReasons(d)
	return func(i int) string {
		_, at := c.locate(i)
		return reason(at)
	}
}

package fit

import (
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// clusterIndex stores what does not change while tasks are placed: the agents and what was computed from them. A
// cluster and its clones share one. Its methods compute each result once.
type clusterIndex struct {
	// agents are sorted by ID and role. UpdateAgents replaces single ones.
	agents []AgentResources
	// roleIDs numbers the roles from 0. agentsByRole has the agents of each, in order. Both are complete when
	// NewCluster returns.
	roleIDs      map[string]int32
	agentsByRole [][]int32

	// hardware stores hardware classes and requirements, also those of earlier states of the agents.
	hardware hardware.Catalog
	// layouts has, for each agent, the devices by slot for a few sets of unlisted devices. It is cleared for an agent
	// whose hardware changes.
	layouts []index.Recent[deviceLayout]
	// demandClasses, agentFilters and fieldColumns depend on fields of agents. UpdateAgents clears them.
	demandClasses index.Table[*demandClass]
	agentFilters  index.Table[index.Bits]
	fieldColumns  index.Memo[string, *index.Column]
	// patterns are the expressions of constraints. They do not depend on agents.
	patterns *PatternCache

	// states numbers the agents by state, since agents in the same state have the same score and the same
	// fragmentation. The scans store these results while all agents are scored for one class.
	states            index.States
	scoreScan         index.Scan[int64]
	fragmentationScan index.Scan[float64]

	// remainders has the results of findRemainderWorth for recent typical tasks.
	remainders index.Recent[*remainderWorth]

	// hasSharedDevices is set once a device of some agent is shared by tasks.
	hasSharedDevices bool
	// hasMaintenance is set if maintenance of an agent is planned.
	hasMaintenance bool
	// wastedSlots counts the capacities whose memory UpdateAgents could not use again.
	wastedSlots int
	// avoidedPorts are sorted; see AvoidPorts.
	avoidedPorts []int
}

func newClusterIndex(agents []AgentResources, patterns *PatternCache) *clusterIndex {
	if patterns == nil {
		patterns = &PatternCache{}
	}
	return &clusterIndex{roleIDs: map[string]int32{}, agents: agents, layouts: make([]index.Recent[deviceLayout], len(agents)), patterns: patterns}
}

// maxStale bounds the cached values that no agent may need any more.
const maxStale = 4096

// hasManyStale reports whether the index stores so many values for earlier states of its agents that a new index is
// better.
func (x *clusterIndex) hasManyStale() bool {
	return x.wastedSlots > len(x.agents)+maxStale || x.hardware.IsOverfull()
}

// forgetFields removes everything that depends on fields of agents, because constraints may have other results from
// now on.
func (x *clusterIndex) forgetFields() {
	x.demandClasses.Clear()
	x.agentFilters.Clear()
	x.fieldColumns.Clear()
}

// roleID returns the number of a role and assigns one to a new role.
func (x *clusterIndex) roleID(name string) int32 {
	id, ok := x.roleIDs[name]
	if !ok {
		id = int32(len(x.roleIDs))
		x.roleIDs[name] = id
	}
	return id
}

// roleAgents returns the agents of a role by its number. Role -1 has none.
func (x *clusterIndex) roleAgents(role int32) []int32 {
	if role < 0 {
		return nil
	}
	return x.agentsByRole[role]
}

// classifyDemand returns the class of a demand. Demands with equal keys share it.
func (c *Cluster) classifyDemand(d *Demand) *demandClass {
	t := &c.index.demandClasses
	return t.Get(d.appendKey(t.Scratch()), func(id int32) *demandClass { return c.index.newDemandClass(id, d) })
}

// findLayout returns the hardware of an agent and its devices by slot, given devices that it may not list. The caller
// must not change extraIDs afterwards, nor the result.
func (x *clusterIndex) findLayout(i int, extraIDs []string) *deviceLayout {
	a := &x.agents[i]
	if !slices.ContainsFunc(extraIDs, func(id string) bool { return !a.listsDevice(id) }) {
		extraIDs = nil // listed devices change nothing
	}
	return x.layouts[i].Get(
		func(l *deviceLayout) bool { return slices.Equal(l.extraIDs, extraIDs) },
		func() deviceLayout { return x.newLayout(a, extraIDs) },
	)
}

// findColumn returns a constraint's field of all agents.
func (x *clusterIndex) findColumn(field string) *index.Column {
	return x.fieldColumns.Get(field, func() *index.Column {
		return index.NewColumn(len(x.agents), func(i int) (string, bool) { return x.agents[i].FieldValue(field) })
	})
}

// findGPUTypeColumn returns the type of the GPUs that a task with this request would get on each agent, and a function for
// the type on one. An agent with several accepted types has no value, since only the choice of devices decides which type
// a task gets.
func (x *clusterIndex) findGPUTypeColumn(r *gpu.Request) (*index.Column, func(*AgentResources) (string, bool)) {
	typesOnly := gpu.Request{GPUs: 1, Types: r.Types, MIG: r.MIGUse()}
	requirement := x.hardware.FindRequirement(typesOnly)
	valueOf := func(a *AgentResources) (only string, ok bool) {
		for p := range a.Products() {
			name := p.Type()
			switch {
			case !requirement.AcceptsProduct(p):
			case only != "" && name != only || name == "":
				return "", false
			default:
				only = name
			}
		}
		return only, only != ""
	}
	key := string(hardware.AppendRequest([]byte(job.GPUTypeField+" "), typesOnly))
	return x.fieldColumns.Get(key, func() *index.Column {
		return index.NewColumn(len(x.agents), func(i int) (string, bool) { return valueOf(&x.agents[i]) })
	}), valueOf
}

// findFilter returns the agents that satisfy constraints which depend on the
// agent alone. It returns nil for no constraints.
func (x *clusterIndex) findFilter(list []job.Constraint) index.Bits {
	if len(list) == 0 {
		return nil
	}
	t := &x.agentFilters
	return t.Get(appendConstraints(t.Scratch(), list), func(int32) index.Bits { return x.newFilter(list) })
}

// deviceLayout is an agent's hardware together with devices that it does not
// list. Forecasts of ending tasks add the same devices repeatedly.
type deviceLayout struct {
	// extraIDs are the unlisted devices that the layout includes. They identify it among the layouts of its agent.
	extraIDs []string
	hardware *hardware.Class
	uuids    []string // by slot
}

// newLayout returns the layout of an agent with devices that it may not list.
func (x *clusterIndex) newLayout(a *AgentResources, extraIDs []string) deviceLayout {
	devices, facts := devicesOf(a, extraIDs), a.describeHardware()
	l := deviceLayout{extraIDs: extraIDs, hardware: x.hardware.FindClass(&facts, devices), uuids: make([]string, len(devices))}
	for s := range devices {
		l.uuids[s] = devices[s].UUID
	}
	return l
}

// newFilter returns the agents that satisfy the constraints, which depend on
// the agent alone.
func (x *clusterIndex) newFilter(list []job.Constraint) index.Bits {
	f := index.NewBits(len(x.agents))
	for i := range x.agents {
		f.Add(i)
	}
	for _, con := range list {
		col := x.findColumn(con.Field)
		ok := make([]bool, len(col.Values()))
		matches := x.patterns.valueMatcher(con)
		for id, v := range col.Values() {
			ok[id] = matches(v)
		}
		for i, id := range col.IDs() {
			if id >= 0 && !ok[id] || id == index.NoValue && con.Operator != job.Unlike {
				f.Remove(i)
			}
		}
	}
	return f
}

// newDemandClass returns the class of a demand; see classifyDemand.
func (x *clusterIndex) newDemandClass(id int32, d *Demand) *demandClass {
	cl := &demandClass{
		taskNeeds: newTaskNeeds(d, &x.hardware), id: id, roleID: -1, portCount: clampInt32(d.Ports), hostPorts: requiredPorts(d),
		avoidsReserved: d.AvoidReserved, minAvailable: int64(d.RunTime),
	}
	if role, ok := x.roleIDs[d.Role]; ok {
		cl.roleID = role
	}
	if cl.minAvailable <= 0 {
		cl.minAvailable = int64(defaultRunTime)
	}
	cl.minimum = newCapacityHint(cl.need.cpus, cl.gpus)
	if cl.wantsShares {
		cl.minimum.gpus = 1
	}
	var fixed []job.Constraint
	for _, con := range d.Constraints {
		switch {
		case con.DependsOnPeers():
			cl.jobConstraints = append(cl.jobConstraints, con)
		case cl.gpus > 0 && con.SelectsGPUTypes(): // the request has it as a rule of its types
		default:
			fixed = append(fixed, con)
		}
	}
	cl.fixedFilter = x.findFilter(fixed)
	if x.patterns.checkPatterns(d.Constraints) != nil {
		cl.fixedFilter = index.NewBits(len(x.agents))
	}
	return cl
}

// defaultRunTime is how long an agent must stay available for a task of unknown
// run time.
const defaultRunTime = time.Hour

package fit

import (
	"math"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/job"
)

// clusterIndex stores what does not change while tasks are placed: the agents
// and what was computed from them. A cluster and its clones share one. All of
// its methods return what a function of another file computes, and compute
// each result once.
type clusterIndex struct {
	agents       []AgentResources
	roleIDs      map[string]int32
	agentsByRole [][]int32 // by role number: its agents in order

	demandClasses   index.Table[*demandClass]
	requirements    index.Table[*deviceRequirement]
	hardwareClasses index.Table[*hardwareClass]
	agentFilters    index.Table[*agentFilter]
	fieldColumns    index.Memo[string, *index.Column]
	layouts         []index.Recent[deviceLayout] // by agent
	deviceChoices   index.Memo[deviceChoiceKey, chosenDevices]

	// Agents in the same state have the same score and the same fragmentation.
	states            index.States
	scoreScan         index.Scan[int64]
	fragmentationScan index.Scan[float64]
	fragmentation     *fragmentationModel
	hasSharedDevices  bool  // some devices are shared by tasks
	hasMaintenance    bool  // maintenance of an agent is planned
	wastedSlots       int   // capacities that UpdateAgents left unused
	avoidedPorts      []int // sorted; see AvoidPorts
}

func newClusterIndex(agents []AgentResources) *clusterIndex {
	return &clusterIndex{roleIDs: map[string]int32{}, agents: agents, layouts: make([]index.Recent[deviceLayout], len(agents))}
}

// maxStale bounds the cached values that no agent may need any more.
const maxStale = 4096

// hasManyStale reports whether the index stores so many values for earlier states of its agents that a new index is
// better.
func (x *clusterIndex) hasManyStale() bool {
	return x.wastedSlots > len(x.agents)+maxStale || x.requirements.Len()+x.hardwareClasses.Len() > maxStale || x.deviceChoices.Len() > 16*maxStale
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

// findFilter returns the agents that satisfy constraints which depend on the
// agent alone. It returns nil for no constraints.
func (x *clusterIndex) findFilter(list []job.Constraint) *agentFilter {
	if len(list) == 0 {
		return nil
	}
	t := &x.agentFilters
	return t.Get(appendConstraints(t.Scratch(), list), func(int32) *agentFilter { return x.newFilter(list) })
}

// deviceLayout is an agent's hardware together with devices that it does not
// list. Forecasts of ending tasks add the same devices repeatedly.
type deviceLayout struct {
	extraIDs []string
	hardware *hardwareClass
	uuids    []string // by slot
}

// newLayout returns the layout of an agent with devices that it may not list.
func (x *clusterIndex) newLayout(a *AgentResources, extraIDs []string) deviceLayout {
	devices := devicesOf(a, extraIDs)
	l := deviceLayout{extraIDs: extraIDs, hardware: x.findHardwareClass(a, devices), uuids: make([]string, len(devices))}
	for s := range devices {
		l.uuids[s] = devices[s].UUID
	}
	return l
}

// newFilter returns the agents that satisfy the constraints, which depend on
// the agent alone.
func (x *clusterIndex) newFilter(list []job.Constraint) *agentFilter {
	f := &agentFilter{bits: make([]uint64, wordCount(len(x.agents)))}
	for i := range x.agents {
		f.bits[i/64] |= 1 << (i % 64)
	}
	for _, con := range list {
		col := x.findColumn(con.Field)
		ok := make([]bool, len(col.Values()))
		matches := valueMatcher(con)
		for id, v := range col.Values() {
			ok[id] = matches(v)
		}
		for i, id := range col.IDs() {
			if id >= 0 && !ok[id] || id == index.NoValue && con.Operator != job.Unlike {
				f.bits[i/64] &^= 1 << (i % 64)
			}
		}
	}
	return f
}

// newDemandClass returns the class of a demand; see classifyDemand.
func (x *clusterIndex) newDemandClass(number int32, d *Demand) *demandClass {
	cl := &demandClass{
		id: number, roleID: -1, gpus: clampInt32(d.Request.GPUs), portCount: clampInt32(d.Ports),
		hostPorts: requiredPorts(d), avoidsReserved: d.AvoidReserved, need: d.Amount.toMilli(), minAvailable: minAvailability(d.RunTime),
	}
	if id, ok := x.roleIDs[d.Role]; ok {
		cl.roleID = id
	}
	if cl.gpus > 0 && !d.Request.Share.IsWhole() {
		cl.wantsShares, cl.share, cl.milliPerDevice = true, d.Request.Share, milliOfShare(d.Request.Share)
	}
	cl.minimum = newCapacityHint(cl.need.cpus, cl.gpus)
	if cl.wantsShares {
		cl.minimum.gpus = 1
	}
	cl.requirement = x.findRequirement(d.Request)
	var fixed []job.Constraint
	for _, con := range d.Constraints {
		if con.DependsOnPeers() {
			cl.jobConstraints = append(cl.jobConstraints, con)
		} else {
			fixed = append(fixed, con)
		}
	}
	cl.fixedFilter = x.findFilter(fixed)
	return cl
}

func clampInt32(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

func minAvailability(runs time.Duration) int64 {
	if runs <= 0 {
		return int64(defaultRunTime)
	}
	return int64(runs)
}

// defaultRunTime is how long an agent must stay available for a task of unknown
// run time.
const defaultRunTime = time.Hour

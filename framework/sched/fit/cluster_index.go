package fit

import (
	"encoding/binary"
	"slices"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
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

// findRequirement returns what a request demands of each device and host. The
// number of GPUs and the share do not matter to it.
func (x *clusterIndex) findRequirement(r gpu.Request) *deviceRequirement {
	r = normalizeRequest(r)
	return x.requirements.Get(appendRequest(x.requirements.Scratch(), r), func(int32) *deviceRequirement { return newRequirement(r) })
}

// matchOn returns which devices of a hardware class satisfy the requirement.
func (w *deviceRequirement) matchOn(k *hardwareClass) *requirementMatch {
	return w.matches.Get(k.id, func() requirementMatch { return w.computeMatch(k) })
}

// acceptsModel reports whether a model satisfies the types of the requirement.
// The answer is cached because types are regular expressions.
func (w *deviceRequirement) acceptsModel(model string) bool {
	types := &w.request.Types
	if types.AcceptsAny() {
		return true
	}
	return model != "" && w.models.Get(model, func() bool { return types.Match(model) })
}

// findHardwareClass returns the hardware of an agent that has these devices.
func (x *clusterIndex) findHardwareClass(a *AgentResources, devices []gpu.Device) *hardwareClass {
	t := &x.hardwareClasses
	return t.Get(appendHardwareKey(t.Scratch(), a, devices), func(id int32) *hardwareClass { return newHardwareClass(id, a, devices) })
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

// deviceChoiceKey contains everything that a choice of devices depends on, for hardware of at most 64 slots.
type deviceChoiceKey struct {
	hardware, gpus   int32
	candidates, free uint64
	topology         gpu.Topology
}

// chooseDevices chooses n of the candidates: free slots, at least n of them. The caller must not change the result.
func (x *clusterIndex) chooseDevices(k *hardwareClass, n int, candidates, free []uint64, topology gpu.Topology) chosenDevices {
	compute := func() chosenDevices {
		return k.chooseSlots(n, listBits(candidates, nil), listBits(free, nil), topology)
	}
	if len(candidates) != 1 {
		return compute()
	}
	key := deviceChoiceKey{hardware: k.id, gpus: int32(n), candidates: candidates[0], free: free[0], topology: topology}
	return x.deviceChoices.Get(key, compute)
}

// rankAgents returns the current score of each agent for the class.
func (c *Cluster) rankAgents(cl *demandClass) *index.Ranking {
	return c.rankings.Get(cl.id,
		func(scores []int64) { c.scoreRole(cl, scores) },
		func(i int) int64 { return c.scoreAgent(i, cl) },
	)
}

// scoreRole scores all agents of the class's role. scores is all 0 before.
func (c *Cluster) scoreRole(cl *demandClass, scores []int64) {
	c.beginScan()
	minimum := cl.minimum // a local copy: the loop visits every agent of the role
	for _, i := range c.index.roleAgents(cl.roleID) {
		if h := c.hints[i]; h.cpus >= minimum.cpus && h.gpus >= minimum.gpus {
			scores[i] = c.scoreInScan(int(i), cl)
		}
	}
}

// beginScan starts to score agents for another class or after a change.
func (c *Cluster) beginScan() {
	c.index.states.Shrink(len(c.capacities))
	c.index.scoreScan.Begin()
	c.index.fragmentationScan.Begin()
}

// scoreInScan returns scoreAgent. Within a scan, agents in the same state are
// scored once.
func (c *Cluster) scoreInScan(i int, cl *demandClass) int64 {
	if !c.policy.isExpensive || cl.requirement.namesDevices {
		return c.scoreAgent(i, cl)
	}
	r := &c.capacities[i]
	if !c.admitsClass(i, r, cl) {
		return 0
	}
	return c.index.scoreScan.Get(c.stateNumberOf(r), func() int64 { return c.scoreAgent(i, cl) })
}

// fragmentationInScan returns fragmentationOf. Within a scan, agents in the
// same state are measured once.
func (c *Cluster) fragmentationInScan(r *agentCapacity) float64 {
	return c.index.fragmentationScan.Get(c.stateNumberOf(r), func() float64 { return c.fragmentationOf(r) })
}

// stateNumberOf returns a number that agents with the same hardware and the
// same free resources share. Ports, constraints and UUIDs do not matter to it.
func (c *Cluster) stateNumberOf(r *agentCapacity) int32 {
	s := &c.index.states
	if r.stateGeneration == s.Generation() {
		return r.stateNumber
	}
	b := s.Scratch()
	for _, n := range [...]int64{int64(r.hardware.id), int64(r.scalarGPUs), int64(r.reservation), r.free.cpus, r.free.mem, r.free.disk} {
		b = binary.AppendVarint(b, n)
	}
	for _, m := range c.wholeMask(r) {
		b = binary.LittleEndian.AppendUint64(b, m)
	}
	if r.hasDeviceIDs {
		b = append(b, 'N')
	}
	if r.shareOffset >= 0 && (r.partialSlots > 0 || !r.hardware.divisible) {
		for s, p := range c.freeSharesOf(r) {
			b = binary.AppendVarint(b, int64(p.mem))
			if !r.hardware.divisible {
				all := c.totalShares[int(r.shareOffset)+s]
				for _, n := range [...]int32{p.cores, all.mem, all.cores} {
					b = binary.AppendVarint(b, int64(n))
				}
			}
		}
	}
	r.stateNumber, r.stateGeneration = s.Number(b), s.Generation()
	return r.stateNumber
}

// findProfile returns how the typical tasks use the GPUs of an agent with the given free amounts. Agents of a
// hardware class with similar free amounts share it. Thousands of classes and of typical tasks do not overflow its
// key.
func (f *fragmentationModel) findProfile(r *agentCapacity, free *milliAmount) *usageProfile {
	key := uint64(r.hardware.id)<<1 | 1
	if r.hasDeviceIDs {
		key--
	}
	key = key*uint64(len(f.cpuSteps)+1) + uint64(countUpTo(f.cpuSteps, free.cpus))
	key = key*uint64(len(f.memSteps)+1) + uint64(countUpTo(f.memSteps, free.mem))
	key = key*uint64(len(f.diskSteps)+1) + uint64(countUpTo(f.diskSteps, free.disk))
	return f.profiles.Get(key, func() *usageProfile { return f.newProfile(r, free) })
}

// usesAllOrNone reports whether each typical task can use all GPUs of the
// hardware or none of them.
func (f *fragmentationModel) usesAllOrNone(k *hardwareClass) bool {
	return *f.allOrNone.Get(k.id, func() bool { return f.computeAllOrNone(k) })
}

// scarcityOf returns the scarcity of a hardware class's GPUs, whole or in
// shares: from 0 (no typical task requires them) to 1 (those that require them
// would take them all if the cluster were full).
func (f *fragmentationModel) scarcityOf(k *hardwareClass, shares bool) float64 {
	s := f.scarcity.Get(k.id, func() scarcityByMode { return f.computeScarcity(k) })
	if shares {
		return s.shares
	}
	return s.whole
}

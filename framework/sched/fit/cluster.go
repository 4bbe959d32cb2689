package fit

import (
	"sort"
	"time"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/framework/sched/fit/index"
)

// Cluster stores what agents have free. A cluster and its clones share caches:
// only one goroutine may use them at a time.
type Cluster struct {
	// index has what does not depend on free resources. A clone uses the same one.
	index *clusterIndex
	// policy scores agents and chooses devices. It never changes.
	policy *placementScorer
	// now is the time from which maintenance is counted. NewCluster and UpdateAgents set it.
	now time.Time
	// capacities contains the agents' free resources, in the order of clusterIndex.agents.
	capacities []agentCapacity
	// wholeBits has the slots of all agents whose device is not shared and free now. The slots of one agent start at
	// agentCapacity.bitOffset; wholeMask returns them.
	wholeBits index.Bits
	// slotShares has the amounts of the slots of agents that have shared or divisible devices. The slots of one agent
	// start at agentCapacity.shareOffset; sharesOf returns them.
	slotShares []slotShares
	// agentScores is placementScorer.scoreState of each agent. It changes with the agent's capacity.
	agentScores []int64
	// hints bound what a task may get from each agent. They change with the agent's capacity and exclude most agents
	// before their capacities are read.
	hints []capacityHint
	// reservations grows with each call of ReserveResources; agentCapacity.reservation refers to it.
	reservations []reservedResources
	// rankings stores the scores of all agents for recent demand classes.
	rankings index.Rankings
	// fragmentation measures agents by the typical tasks. NewCluster and UpdateAgents replace it.
	fragmentation *fragmentationModel
	// ofTotals is set if the agents are as if nothing was in use. It changes only explanations.
	ofTotals bool
	// draws counts the lots drawn since the cluster was created or copied.
	draws uint64
	// taskMixes counts the tasks that this cluster placed on each agent, by the number of devices of each; 0 stands for
	// a share of one. It is nil until a policy that uses it places a task.
	taskMixes []map[int32]int
	// Buffers that are valid until the next call of the function that uses them.
	maskScratch   index.Bits
	chosenScratch []int
	optionScratch []slotOption
	shareScratch  []shareAmount
	countScratch  []int32 // of CountTasks
}

// agentCapacity contains the free resources of one agent.
type agentCapacity struct {
	// free has CPUs, memory and disk that no task uses. Placements reduce it, ReleaseAt increases it.
	free milliAmount
	// untilMaintenance is in nanoseconds from Cluster.now; MaxInt64 if no maintenance is planned.
	untilMaintenance int64
	// hardware and uuids describe the devices by slot. They are replaced if ReleaseAt or ReserveResources adds devices
	// that the agent does not list.
	hardware *hardware.Class
	uuids    []string
	// ports are free, merged and sorted. portCount is their number.
	ports     []PortRange
	portCount int32
	// shareOffset is where the agent's slots start in Cluster.slotShares; -1 if no slot was ever shared or divisible.
	shareOffset int32
	// bitOffset is where the agent's slots start in Cluster.wholeBits, in words.
	bitOffset int32
	// scalarGPUs is the free gpus scalar. wholeGPUs counts the slots that are wholly free and not shared, partialSlots
	// those of which a part is free. idleShared counts those of the latter that are shared and of which no task has a
	// share: one task may take all of such a slot.
	scalarGPUs, wholeGPUs, partialSlots, idleShared int32
	// roleID is the number of the role that the agent offers to.
	roleID int32
	// reservation is the position in Cluster.reservations plus one; 0 if nothing of the agent is reserved.
	reservation int32
	// hasDeviceIDs is set if devices are offered by ID, not by count alone.
	hasDeviceIDs bool
	// stateNumber is the result of stateNumberOf. It is valid if stateGeneration is the current one; a change of the
	// capacity resets stateGeneration to 0.
	stateNumber     int32
	stateGeneration uint32
	// fragmentation is fragmentationOf the current state, if typical tasks are known.
	fragmentation float64
}

// reservedResources are kept from demands with AvoidReserved on one agent. A change replaces the value, since clones
// refer to the old one.
type reservedResources struct {
	// amount has the reserved CPUs, memory and disk.
	amount milliAmount
	// gpus counts devices with IDs too. mask has the slots of these.
	gpus int32
	mask index.Bits
	// shares has an amount for each slot; nil if no share is reserved.
	shares []shareAmount
	ports  []int
}

// placementScorer is the implementation of one policy.
type placementScorer struct {
	// name is the policy's name in the roles file.
	name string
	// scoreTask scores a feasible agent for one task: above 0, more is better. Among equal scores the first agent by
	// ID wins. If it is nil, scoreState is the score.
	scoreTask func(c *Cluster, i int, cl *demandClass) int64
	// scoreState scores an agent for any task, from 1 to maxAgentScore.
	scoreState func(r *agentCapacity, gpuMilli int64) int64
	// chooseSlot chooses the slot for one share. If it is nil, and for several shares, the task gets the slots with the
	// least left, or with the most if prefersRoomy is set.
	chooseSlot   func(c *Cluster, i int, cl *demandClass) int
	prefersRoomy bool
	// usesTypicalTasks and usesTaskMix are set if the policy needs these data.
	usesTypicalTasks, usesTaskMix bool
	// surveysScarcity is set if the policy needs to know which GPUs and which sizes of agents are scarce.
	surveysScarcity bool
	// isExpensive is set if a score costs more than stateNumberOf.
	isExpensive bool
	// drawsLots is set if lots decide between equals; seed determines them.
	drawsLots bool
	seed      uint64
	// isBaseline marks policies from the literature, for comparison.
	isBaseline bool
}

// slotOption is a slot that has room for a share.
type slotOption struct {
	// slot is an index in agentCapacity.uuids.
	slot int
	// freeMilli is freeMilliOf the slot. capacity is how many such shares fit into it.
	freeMilli int32
	capacity  int64
}

// Agents returns the agents by ID and role, with what they had free when the
// cluster was created or updated. The caller must not change them.
func (c *Cluster) Agents() []AgentResources { return c.index.agents }

// HasMaintenance reports whether maintenance of an agent is planned.
func (c *Cluster) HasMaintenance() bool { return c.index.hasMaintenance }

// FindAgent returns the index of an agent, or -1.
func (c *Cluster) FindAgent(agentID, role string) int {
	agents := c.index.agents
	i, found := sort.Find(len(agents), func(i int) int { return -compareAgent(&agents[i], agentID, role) })
	if !found {
		return -1
	}
	return i
}

// findAgentFrom is FindAgent for one of many agents that are looked up in order: it is faster if the agent comes soon after
// the index from.
func (c *Cluster) findAgentFrom(from int, agentID, role string) int {
	agents, step := c.index.agents, 1
	if from >= len(agents) || compareAgent(&agents[from], agentID, role) > 0 {
		from = 0
	}
	for from+step < len(agents) && compareAgent(&agents[from+step], agentID, role) <= 0 {
		from, step = from+step, 2*step
	}
	i, found := sort.Find(min(step, len(agents)-from), func(i int) int { return -compareAgent(&agents[from+i], agentID, role) })
	if !found {
		return -1
	}
	return from + i
}

// FindAgentByID returns the agent with that ID, whichever role it offers to, or nil. The agents are sorted by ID.
func FindAgentByID(agents []AgentResources, id string) *AgentResources {
	i := sort.Search(len(agents), func(i int) bool { return agents[i].ID > id }) - 1
	if i < 0 || agents[i].ID != id {
		return nil
	}
	return &agents[i]
}

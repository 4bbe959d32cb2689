package fit

import (
	"sort"
	"time"

	"mesos-gpu/framework/sched/fit/index"
)

// Cluster stores what agents have free. A cluster and its clones share caches:
// only one goroutine may use them at a time.
type Cluster struct {
	index      *clusterIndex
	policy     *placementScorer
	now        time.Time
	capacities []agentCapacity
	// wholeBits has a bit for each slot; it is set while the device may be taken
	// whole. freeShares and totalShares have what is free of each slot, and how
	// much there is, for agents that have shared or divisible devices.
	// agentCapacity.bitOffset and shareOffset are where an agent's slots start.
	wholeBits               []uint64
	freeShares, totalShares []shareAmount
	// agentScores are the scores that do not depend on the task; see placementScorer.
	agentScores []int64
	// hints exclude most agents before their capacities are read.
	hints        []capacityHint
	reservations []reservedResources
	rankings     index.Rankings
	draws        uint64 // lots drawn since the cluster was created or copied
	// taskMixes are the tasks that this cluster placed on each agent, for
	// policies that use them.
	taskMixes []taskMix
	// Buffers that are valid until the next call of the function that uses them.
	maskScratch   []uint64
	slotScratch   []int
	chosenScratch []int
	optionScratch []slotOption
	shareScratch  []shareAmount
	countScratch  []int32 // of CountTasks
	levelScratch  []float64
}

// agentCapacity is what one agent has free at the moment.
type agentCapacity struct {
	free             milliAmount
	untilMaintenance int64 // nanoseconds; MaxInt64 if none is planned
	hardware         *hardwareClass
	uuids            []string // by slot
	ports            []PortRange
	shareOffset      int32 // of its slots in Cluster.freeShares; -1: none is shared or divisible
	bitOffset        int32 // of its slots in Cluster.wholeBits, in words
	scalarGPUs       int32 // the free gpus scalar
	wholeGPUs        int32 // slots that are wholly free
	partialSlots     int32 // slots that are free in part
	portCount        int32
	roleID           int32
	reservation      int32 // index in Cluster.reservations, plus one; 0: none
	hasDeviceIDs     bool  // devices are offered by ID, not by count alone
	stateNumber      int32 // see stateNumberOf; valid if stateGeneration is current
	stateGeneration  uint32
	fragmentation    float64 // in the current state; see fragmentationOf
}

// reservedResources are kept from demands with AvoidReserved.
type reservedResources struct {
	amount milliAmount
	gpus   int32
	mask   []uint64
	shares []shareAmount // by slot; nil: none
	ports  []int
}

// Agents returns the agents by ID and role, with what they had free when the
// cluster was created or updated. The caller must not change them.
func (c *Cluster) Agents() []AgentResources { return c.index.agents }

// FindAgent returns the index of an agent, or -1.
func (c *Cluster) FindAgent(agentID, role string) int {
	agents := c.index.agents
	i := sort.Search(len(agents), func(i int) bool { return compareAgent(&agents[i], agentID, role) >= 0 })
	if i == len(agents) || compareAgent(&agents[i], agentID, role) != 0 {
		return -1
	}
	return i
}

// placementScorer is the implementation of one policy.
type placementScorer struct {
	name string
	// scoreTask scores a feasible agent for one task: above 0, more is better. Among equal scores the first agent by
	// ID wins. If it is nil, scoreState is the score.
	scoreTask func(c *Cluster, i int, cl *demandClass) int64
	// scoreState scores an agent for any task, from 1 to maxAgentScore.
	scoreState func(r *agentCapacity, gpuMilli int64) int64
	// chooseSlot chooses the slot for one share. prefersRoomy determines which slots several shares come from: those
	// with the most left, or the least.
	chooseSlot   func(c *Cluster, i int, cl *demandClass) int
	prefersRoomy bool
	// usesTypicalTasks and usesTaskMix are set if the policy needs these data.
	usesTypicalTasks, usesTaskMix bool
	// limitsByCPUs is set if GPUs for which the agent lacks CPUs count as partly unusable.
	limitsByCPUs bool
	// isExpensive is set if a score costs more than stateNumberOf.
	isExpensive bool
	// drawsLots is set if lots decide between equals.
	drawsLots bool
	seed      uint64
	// isBaseline marks policies from the literature, for comparison.
	isBaseline bool
}

// slotOption is a slot that has room for a share.
type slotOption struct {
	slot      int
	freeMilli int32
	capacity  int64 // how many such shares fit
}

// taskMix counts an agent's tasks by the number of devices of each; 0 stands for
// a share of one.
type taskMix map[int32]int

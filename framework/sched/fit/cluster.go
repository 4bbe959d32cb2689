package fit

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"mesos-gpu/framework/sched/fit/index"
)

// wholeDevice is one device in the thousandths that tasks may take of it.
const wholeDevice = 1000

// maxGPUs bounds the gpus scalar of one agent.
const maxGPUs = 1 << 20

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

// capacityHint is an upper bound of what a task may get from an agent.
type capacityHint struct {
	cpus uint32 // thousandths, capped
	gpus int32
}

func newCapacityHint(cpus int64, gpus int32) capacityHint {
	return capacityHint{uint32(min(max(cpus, 0), math.MaxUint32)), gpus}
}

// allows reports whether an agent with this hint may have room for a task that needs at least the minimum. It may
// return true for an agent without room.
func (h capacityHint) allows(minimum capacityHint) bool {
	return h.cpus >= minimum.cpus && h.gpus >= minimum.gpus
}

// reservedResources are kept from demands with AvoidReserved.
type reservedResources struct {
	amount milliAmount
	gpus   int32
	mask   []uint64
	shares []shareAmount // by slot; nil: none
	ports  []int
}

// NewCluster returns a cluster of what the agents have free, with a policy for
// placing tasks. It does not modify its arguments, and keeps what agents point
// to: the caller must not change that either.
func NewCluster(agents []AgentResources, p PlacementPolicy, now time.Time) *Cluster {
	sorted := slices.Clone(agents)
	slices.SortStableFunc(sorted, func(a, b AgentResources) int {
		return compareAgent(&a, b.ID, b.Role)
	})
	c := &Cluster{index: newClusterIndex(sorted), policy: p.findScorer(), now: now}
	c.capacities = make([]agentCapacity, len(sorted))
	c.agentScores = make([]int64, len(sorted))
	c.hints = make([]capacityHint, len(sorted))
	for i := range sorted {
		c.initAgent(i)
	}
	c.index.agentsByRole = make([][]int32, len(c.index.roleIDs))
	for i := range c.capacities {
		role := c.capacities[i].roleID
		c.index.agentsByRole[role] = append(c.index.agentsByRole[role], int32(i))
	}
	c.prepareFragmentation(p.Typical)
	for i := range c.capacities {
		c.refreshAgent(i)
	}
	c.rankings.Reset(len(sorted))
	return c
}

// initAgent computes the capacity of an agent from its resources.
func (c *Cluster) initAgent(i int) {
	a := &c.index.agents[i]
	r := &c.capacities[i]
	*r = agentCapacity{
		free: a.Free.toMilli(), untilMaintenance: c.untilMaintenance(a.Unavailable), ports: mergePorts(a.Ports),
		scalarGPUs: int32(min(max(a.GPUs, 0), maxGPUs)), roleID: c.index.roleID(a.Role), hasDeviceIDs: len(a.DeviceIDs) > 0,
	}
	r.portCount = int32(countPorts(r.ports))
	c.index.hasMaintenance = c.index.hasMaintenance || !a.Unavailable.IsZero()
	shares := len(a.Shared) > 0 || len(a.AllShared) > 0
	if !shares {
		c.layOutDevices(i, a.DeviceIDs)
	} else {
		c.index.hasSharedDevices = true
		c.layOutDevices(i, allDeviceIDs(a))
		c.initShared(a, r)
		r.hasDeviceIDs = true
	}
	for _, id := range a.DeviceIDs {
		c.freeSlot(r, slotOf(r.uuids, id))
	}
	r.wholeGPUs = int32(countBits(c.wholeMask(r)))
	if shares {
		c.countPartialSlots(r)
	}
}

// allDeviceIDs returns all devices that the agent offers, whole or shared, and
// those it is known to share.
func allDeviceIDs(a *AgentResources) []string {
	ids := slices.Clone(a.DeviceIDs)
	for _, list := range [][]SharedDevice{a.Shared, a.AllShared} {
		for _, s := range list {
			ids = append(ids, s.UUID)
		}
	}
	return ids
}

// layOutDevices assigns slots to the agent's devices, all of them taken.
func (c *Cluster) layOutDevices(i int, extraIDs []string) {
	r := &c.capacities[i]
	l := c.index.findLayout(i, extraIDs)
	r.hardware, r.uuids = l.hardware, l.uuids
	r.shareOffset, r.bitOffset = -1, int32(len(c.wholeBits))
	c.wholeBits = append(c.wholeBits, make([]uint64, wordCount(len(r.uuids)))...)
	if r.hardware.divisible {
		c.trackShares(r)
	}
}

func (c *Cluster) untilMaintenance(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return int64(t.Sub(c.now))
}

// Agents returns the agents by ID and role, with what they had free when the
// cluster was created or updated. The caller must not change them.
func (c *Cluster) Agents() []AgentResources { return c.index.agents }

func (c *Cluster) wholeMask(r *agentCapacity) []uint64 {
	return c.wholeBits[r.bitOffset : int(r.bitOffset)+wordCount(len(r.hardware.slots))]
}

// freeSlot makes a device free to be taken whole, unless tasks share it.
func (c *Cluster) freeSlot(r *agentCapacity, slot int) {
	if c.isShared(r, slot) {
		return
	}
	c.wholeBits[int(r.bitOffset)+slot/64] |= 1 << (slot % 64)
	if r.hardware.divisible {
		c.freeShares[int(r.shareOffset)+slot].mem = wholeDevice
	}
}

// takeSlot marks a whole device as taken.
func (c *Cluster) takeSlot(r *agentCapacity, slot int) {
	c.wholeBits[int(r.bitOffset)+slot/64] &^= 1 << (slot % 64)
	if r.hardware.divisible {
		c.freeShares[int(r.shareOffset)+slot].mem = 0
	}
}

// freeGPUs returns how many whole GPUs may be taken. A task takes one of the
// scalar for each GPU, and a device if they have IDs.
func (r *agentCapacity) freeGPUs() int32 {
	if r.hasDeviceIDs {
		return min(r.scalarGPUs, r.wholeGPUs)
	}
	return r.scalarGPUs
}

// agentChanged updates everything derived from what an agent has free. Every function that changes a capacity calls
// it.
func (c *Cluster) agentChanged(i int) {
	r := &c.capacities[i]
	wholes := 0
	for _, m := range c.wholeMask(r) {
		wholes += bits.OnesCount64(m)
	}
	r.wholeGPUs, r.stateGeneration = int32(wholes), 0
	c.countPartialSlots(r)
	c.refreshAgent(i)
	c.rankings.AgentChanged(i)
}

// countPartialSlots counts the slots of which a share is free.
func (c *Cluster) countPartialSlots(r *agentCapacity) {
	r.partialSlots = 0
	most := int32(math.MaxInt32)
	if r.hardware.divisible {
		most = wholeDevice // a free divisible device is a whole one
	}
	for _, p := range c.freeSharesOf(r) {
		if p.mem > 0 && p.mem < most {
			r.partialSlots++
		}
	}
}

// FindAgent returns the index of an agent, or -1.
func (c *Cluster) FindAgent(agentID, role string) int {
	agents := c.index.agents
	i := sort.Search(len(agents), func(i int) bool { return compareAgent(&agents[i], agentID, role) >= 0 })
	if i == len(agents) || compareAgent(&agents[i], agentID, role) != 0 {
		return -1
	}
	return i
}

// slotOf returns the slot of a device on its agent, or -1.
func slotOf(uuids []string, id string) int { return slices.Index(uuids, id) }

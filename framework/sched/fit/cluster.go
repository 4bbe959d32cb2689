package fit

import (
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"mesos-gpu/framework/sched/fit/index"
)

// wholeDevice is one device in the thousandths that tasks may share.
const wholeDevice = 1000

// maxGPUs bounds what the scalar of one agent may mean.
const maxGPUs = 1 << 20

// Cluster is what agents have free. It, its clones and their answers are for
// one goroutine.
type Cluster struct {
	index      *clusterIndex
	policy     *placementScorer
	now        time.Time
	capacities []agentCapacity
	// wholeBits are the slots that are free to be taken whole, as bits; parts is
	// what is free of each slot that tasks share, and alls what there is of
	// it, on agents with such. room says where an agent's begin.
	wholeBits               []uint64
	freeShares, totalShares []shareAmount
	// agentScores is how the policy ranks each agent as it is; see scorer.
	agentScores []int64
	// hints rule most agents out without a look at their rooms.
	hints        []capacityHint
	reservations []reservedResources
	rankings     index.Rankings
	draws        uint64 // lots drawn so far; see drawLot
	// taskMixes are who the policy put on each agent, if it asks.
	taskMixes []taskMix
	// scratch
	maskScratch   []uint64
	slotScratch   []int
	chosenScratch []int
	optionScratch []slotOption
	shareScratch  []shareAmount
	countScratch  []int32 // of Count
	levelScratch  []float64
}

// agentCapacity is what one agent has free.
type agentCapacity struct {
	free             milliAmount
	untilMaintenance int64 // nanoseconds until maintenance begins
	hardware         *hardwareClass
	uuids            []string // by slot
	ports            []PortRange
	shareOffset      int32 // where its slots begin in Cluster.parts; -1: none is shared
	bitOffset        int32 // where they begin in Cluster.whole
	scalarGPUs       int32 // the scalar
	wholeGPUs        int32 // slots wholly free
	partialSlots     int32 // slots of which a part may be taken, wholes aside
	portCount        int32
	roleID           int32
	reservation      int32 // in Cluster.holds, plus one; 0: none
	hasDeviceIDs     bool  // devices go by name
	stateNumber      int32 // see states; good while generation is theirs
	stateGeneration  uint32
	fragmentation    float64 // fragmentation as it is; see fragments
}

// capacityHint is the most that a task may find on an agent.
type capacityHint struct {
	cpus uint32 // thousandths, or the most that fits here
	gpus int32
}

func newCapacityHint(cpus int64, gpus int32) capacityHint {
	return capacityHint{uint32(min(max(cpus, 0), math.MaxUint32)), gpus}
}

// allows reports whether an agent with the hint h may have room for a task that
// needs at least the minimum.
func (h capacityHint) allows(minimum capacityHint) bool {
	return h.cpus >= minimum.cpus && h.gpus >= minimum.gpus
}

// reservedResources is what is kept from demands that may outlive it.
type reservedResources struct {
	amount milliAmount
	gpus   int32
	mask   []uint64
	shares []shareAmount // by slot; nil: none
	ports  []int
}

// NewCluster joins what agents have free with a policy for taking it. It does
// not modify its arguments, and shares what agents point to.
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

// initAgent makes an agent's room.
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

// allDeviceIDs are all devices that the agent has a word about.
func allDeviceIDs(a *AgentResources) []string {
	ids := slices.Clone(a.DeviceIDs)
	for _, list := range [][]SharedDevice{a.Shared, a.AllShared} {
		for _, s := range list {
			ids = append(ids, s.UUID)
		}
	}
	return ids
}

// layOutDevices gives a room slots for the agent's devices, all taken.
func (c *Cluster) layOutDevices(i int, more []string) {
	r := &c.capacities[i]
	l := c.index.findLayout(i, more)
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

// Agents are those the cluster was made of, by id and role. Nobody changes
// them: Free and the like are what there was at first.
func (c *Cluster) Agents() []AgentResources { return c.index.agents }

func (c *Cluster) wholeMask(r *agentCapacity) []uint64 {
	return c.wholeBits[r.bitOffset : int(r.bitOffset)+wordCount(len(r.hardware.slots))]
}

// freeSlot makes a slot free to be taken whole, unless tasks share it.
func (c *Cluster) freeSlot(r *agentCapacity, slot int) {
	if c.isShared(r, slot) {
		return
	}
	c.wholeBits[int(r.bitOffset)+slot/64] |= 1 << (slot % 64)
	if r.hardware.divisible {
		c.freeShares[int(r.shareOffset)+slot].mem = wholeDevice
	}
}

// takeSlot makes a whole slot taken.
func (c *Cluster) takeSlot(r *agentCapacity, slot int) {
	c.wholeBits[int(r.bitOffset)+slot/64] &^= 1 << (slot % 64)
	if r.hardware.divisible {
		c.freeShares[int(r.shareOffset)+slot].mem = 0
	}
}

// freeGPUs is how many whole GPUs may be taken: a task takes the scalar and,
// where devices have names, as many of those.
func (r *agentCapacity) freeGPUs() int32 {
	if r.hasDeviceIDs {
		return min(r.scalarGPUs, r.wholeGPUs)
	}
	return r.scalarGPUs
}

// agentChanged brings up to date what depends on what is free.
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

// countPartialSlots counts the slots that are free in part.
func (c *Cluster) countPartialSlots(r *agentCapacity) {
	r.partialSlots = 0
	most := int32(math.MaxInt32)
	if r.hardware.divisible {
		most = wholeDevice // else it is a whole one
	}
	for _, p := range c.freeSharesOf(r) {
		if p.mem > 0 && p.mem < most {
			r.partialSlots++
		}
	}
}

// FindAgent looks an agent up; -1 if it is not there.
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

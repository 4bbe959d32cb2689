package fit

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// wholeDevice is one device in the thousandths that tasks may share.
const wholeDevice = 1000

// maxGPUs bounds what the scalar of one agent may mean.
const maxGPUs = 1 << 20

// Cluster is what agents have free. It, its clones and their answers are for
// one goroutine.
type Cluster struct {
	world  *world
	policy *scorer
	now    time.Time
	rooms  []room
	// whole are the slots that are free to be taken whole, as bits; parts is
	// what is free of each slot that tasks share, and alls what there is of
	// it, on agents with such. room says where an agent's begin.
	whole       []uint64
	parts, alls []part
	// plain is how the policy ranks each agent as it is; see scorer.
	plain []int64
	// glances rule most agents out without a look at their rooms.
	glances []glance
	holds   []hold
	ranks   rankings
	// companies are who the policy put on each agent, if it asks.
	companies []company
	// scratch
	mask   []uint64
	slots  []int
	chosen []int
	ways   []way
	sketch []part
	counts []int32 // of Count
	levels []float64
}

// room is what one agent has free.
type room struct {
	free       amount
	until      int64 // nanoseconds until maintenance begins
	kind       *kind
	uuids      []string // by slot
	ports      []PortRange
	part       int32 // where its slots begin in Cluster.parts; -1: none is shared
	word       int32 // where they begin in Cluster.whole
	gpus       int32 // the scalar
	wholes     int32 // slots wholly free
	partial    int32 // slots of which a part may be taken, wholes aside
	nports     int32
	role       int32
	hold       int32 // in Cluster.holds, plus one; 0: none
	named      bool  // devices go by name
	state      int32 // see states; good while generation is theirs
	generation uint32
	before     float64 // fragmentation as it is; see fragments
}

// glance is the most that a task may find on an agent.
type glance struct {
	cpus uint32 // thousandths, or the most that fits here
	gpus int32
}

func glanceOf(cpus int64, gpus int32) glance {
	return glance{uint32(min(max(cpus, 0), math.MaxUint32)), gpus}
}

// hold is what is kept from demands that may outlive it.
type hold struct {
	amount amount
	gpus   int32
	mask   []uint64
	parts  []part // by slot; nil: none
	ports  []int
}

// NewCluster joins what agents have free with a policy for taking it. It does
// not modify its arguments, and shares what agents point to.
func NewCluster(agents []Agent, p Policy, now time.Time) *Cluster {
	sorted := slices.Clone(agents)
	slices.SortStableFunc(sorted, func(a, b Agent) int {
		return compareAgent(&a, b.ID, b.Role)
	})
	c := &Cluster{world: newWorld(sorted), policy: p.scorer(), now: now}
	c.rooms = make([]room, len(sorted))
	c.plain = make([]int64, len(sorted))
	c.glances = make([]glance, len(sorted))
	for i := range sorted {
		c.open(i)
	}
	c.world.ofRole = make([][]int32, len(c.world.roles))
	for i := range c.rooms {
		role := c.rooms[i].role
		c.world.ofRole[role] = append(c.world.ofRole[role], int32(i))
	}
	c.measure(p.Typical)
	for i := range c.rooms {
		c.rate(i)
	}
	c.ranks.start(len(sorted))
	return c
}

// open makes an agent's room.
func (c *Cluster) open(i int) {
	a := &c.world.agents[i]
	r := &c.rooms[i]
	*r = room{
		free: a.Free.milli(), until: c.until(a.Unavailable), ports: joinPorts(a.Ports),
		gpus: int32(min(max(a.GPUs, 0), maxGPUs)), role: c.world.role(a.Role), named: len(a.DeviceIDs) > 0,
	}
	r.nports = int32(countPorts(r.ports))
	c.world.closing = c.world.closing || !a.Unavailable.IsZero()
	shares := len(a.Shared) > 0 || len(a.AllShared) > 0
	if !shares {
		c.furnish(i, a.DeviceIDs)
	} else {
		c.world.shares = true
		c.furnish(i, withShared(a))
		c.openShared(a, r)
		r.named = true
	}
	for _, id := range a.DeviceIDs {
		c.give(r, slotOf(r.uuids, id))
	}
	r.wholes = int32(count(c.wholeOf(r)))
	if shares {
		c.tally(r)
	}
}

// withShared are all devices that the agent has a word about.
func withShared(a *Agent) []string {
	ids := slices.Clone(a.DeviceIDs)
	for _, list := range [][]Shared{a.Shared, a.AllShared} {
		for _, s := range list {
			ids = append(ids, s.UUID)
		}
	}
	return ids
}

// furnish gives a room slots for the agent's devices, all taken.
func (c *Cluster) furnish(i int, more []string) {
	r := &c.rooms[i]
	r.kind, r.uuids = c.world.furniture(i, more)
	r.part, r.word = -1, int32(len(c.whole))
	c.whole = append(c.whole, make([]uint64, words(len(r.uuids)))...)
	if r.kind.divisible {
		c.divide(r)
	}
}

func (c *Cluster) until(t time.Time) int64 {
	if t.IsZero() {
		return math.MaxInt64
	}
	return int64(t.Sub(c.now))
}

// Agents are those the cluster was made of, by id and role. Nobody changes
// them: Free and the like are what there was at first.
func (c *Cluster) Agents() []Agent { return c.world.agents }

func (c *Cluster) wholeOf(r *room) []uint64 {
	return c.whole[r.word : int(r.word)+words(len(r.kind.slots))]
}

// give makes a slot free to be taken whole, unless tasks share it.
func (c *Cluster) give(r *room, slot int) {
	if c.isShared(r, slot) {
		return
	}
	c.whole[int(r.word)+slot/64] |= 1 << (slot % 64)
	if r.kind.divisible {
		c.parts[int(r.part)+slot].mem = wholeDevice
	}
}

// takeOff makes a whole slot taken.
func (c *Cluster) takeOff(r *room, slot int) {
	c.whole[int(r.word)+slot/64] &^= 1 << (slot % 64)
	if r.kind.divisible {
		c.parts[int(r.part)+slot].mem = 0
	}
}

// freeGPUs is how many whole GPUs may be taken: a task takes the scalar and,
// where devices have names, as many of those.
func (r *room) freeGPUs() int32 {
	if r.named {
		return min(r.gpus, r.wholes)
	}
	return r.gpus
}

// changed brings up to date what depends on what is free.
func (c *Cluster) changed(i int) {
	r := &c.rooms[i]
	wholes := 0
	for _, m := range c.wholeOf(r) {
		wholes += bits.OnesCount64(m)
	}
	r.wholes, r.generation = int32(wholes), 0
	c.tally(r)
	c.rate(i)
	c.ranks.changed(i)
}

// tally counts the slots that are free in part.
func (c *Cluster) tally(r *room) {
	r.partial = 0
	most := int32(math.MaxInt32)
	if r.kind.divisible {
		most = wholeDevice // else it is a whole one
	}
	for _, p := range c.partsOf(r) {
		if p.mem > 0 && p.mem < most {
			r.partial++
		}
	}
}

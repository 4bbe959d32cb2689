package fit

import (
	"maps"
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
	// shares are thousandths free of each slot, whole the slots that are
	// wholly free, as bits. room says where an agent's begin.
	shares []int16
	whole  []uint64
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
	sketch []int16
	levels []float64
}

// room is what one agent has free.
type room struct {
	free       amount
	until      int64 // nanoseconds until maintenance begins
	kind       *kind
	uuids      []string // by slot
	ports      []PortRange
	dev        int32 // where its slots begin in Cluster.shares
	word       int32 // where they begin in Cluster.whole
	gpus       int32 // the scalar
	wholes     int32 // slots wholly free
	partial    int32 // slots partly free
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
	if !c.policy.typical {
		p.Typical = nil
	}
	c.world.frag = newFragments(c.world, p.Typical, c.policy.feeds)
	if c.policy.feeds {
		c.world.frag.survey(c)
	}
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
	c.furnish(i, a.DeviceIDs)
	for _, id := range a.DeviceIDs {
		c.give(r, slotOf(r.uuids, id), wholeDevice)
	}
	r.wholes = int32(count(c.wholeOf(r)))
}

// furnish gives a room slots for the agent's devices, all taken.
func (c *Cluster) furnish(i int, more []string) {
	a, r := &c.world.agents[i], &c.rooms[i]
	devices := devicesOf(a, more)
	r.kind = c.world.kind(a, devices)
	r.uuids = make([]string, len(devices))
	for s := range devices {
		r.uuids[s] = devices[s].UUID
	}
	r.dev, r.word = int32(len(c.shares)), int32(len(c.whole))
	c.shares = append(c.shares, make([]int16, len(devices))...)
	c.whole = append(c.whole, make([]uint64, words(len(devices)))...)
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

// Clone is a cluster of its own that is in the same state.
func (c *Cluster) Clone() *Cluster {
	d := &Cluster{
		world: c.world, policy: c.policy, now: c.now,
		rooms: slices.Clone(c.rooms), shares: slices.Clone(c.shares), whole: slices.Clone(c.whole),
		plain: slices.Clone(c.plain), glances: slices.Clone(c.glances), holds: slices.Clone(c.holds),
	}
	for _, of := range c.companies {
		d.companies = append(d.companies, maps.Clone(of))
	}
	d.ranks.start(len(d.rooms))
	return d
}

func (c *Cluster) sharesOf(r *room) []int16 {
	return c.shares[r.dev : int(r.dev)+len(r.kind.slots)]
}

func (c *Cluster) wholeOf(r *room) []uint64 {
	return c.whole[r.word : int(r.word)+words(len(r.kind.slots))]
}

// give makes so much of a slot free again.
func (c *Cluster) give(r *room, slot int, milli int16) {
	s := &c.shares[int(r.dev)+slot]
	*s = min(*s+milli, wholeDevice)
	if *s == wholeDevice {
		c.whole[int(r.word)+slot/64] |= 1 << (slot % 64)
	}
}

// takeOff makes so much of a slot taken.
func (c *Cluster) takeOff(r *room, slot int, milli int16) {
	c.shares[int(r.dev)+slot] -= milli
	c.whole[int(r.word)+slot/64] &^= 1 << (slot % 64)
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
	wholes, partial := 0, int32(0)
	for _, m := range c.wholeOf(r) {
		wholes += bits.OnesCount64(m)
	}
	for _, s := range c.sharesOf(r) {
		if s > 0 && s < wholeDevice {
			partial++
		}
	}
	r.wholes, r.partial, r.generation = int32(wholes), partial, 0
	c.rate(i)
	c.ranks.changed(i)
}

package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Policy says where tasks go.
type Policy struct {
	// Name is one of Policies; empty is the first of them.
	Name string
	// Typical is the workload for which headroom and fgd keep GPUs usable.
	// Without one they place as binpack does.
	Typical []Typical
	// Seed is what lots are drawn by where the policy draws any.
	Seed uint64
}

// Typical is a task that a cluster sees often. Of its demand the amount, the
// GPUs and what they must be count; constraints and roles do not.
type Typical struct {
	Demand Demand
	// Weight says how often, in any unit.
	Weight float64
}

// scorer is one policy.
type scorer struct {
	name string
	// rank says how good an agent is for one task that fits: above 0, and
	// more is better. Among equals the first by id wins. nil: what plain says.
	rank func(c *Cluster, i int, cl *class) int64
	// plain says how good an agent is whatever the task, from 1 to maxPlain.
	plain func(r *room, gpuMilli int64) int64
	// share chooses the slot for one part of a device, roomy says how slots
	// for several are: those with most left, or least.
	share func(c *Cluster, i int, cl *class) int
	roomy bool
	// typical: it needs to know the typical tasks, company: who is on an agent.
	typical, company bool
	// feeds: GPUs are usable only as far as the CPUs go.
	feeds bool
	// costly: ranking takes longer than finding out which agents are equal.
	costly bool
	// lots are drawn among equals; else the first by id wins.
	lots bool
	seed uint64
	// baseline: from the literature, to compare others with.
	baseline bool
}

// scorers is the table of all policies.
func scorers() []scorer {
	return []scorer{
		{name: "headroom", plain: fullest, rank: mostHeadroom, share: leastFragmentedShare, typical: true, feeds: true, costly: true},
		{name: "binpack", plain: fullest, share: tightest},
		{name: "spread", plain: emptiest, share: roomiest, roomy: true},
		{name: "fgd", plain: fullest, rank: leastFragmented, share: leastFragmentedShare, typical: true, costly: true},
		{name: "topology", plain: fullest, rank: closest, share: tightest, costly: true},
		{name: "random", plain: fullest, rank: alike, share: anyShare, lots: true, baseline: true},
		{name: "dotprod", plain: fullest, rank: leastAligned, share: tightest, baseline: true},
		{name: "clustering", plain: fullest, rank: amongItsLike, share: tightest, company: true, baseline: true},
		{name: "packing", plain: fullest, rank: mostPacked, share: tightest, baseline: true},
		{name: "bestfit", plain: fullest, rank: leastLeft, share: tightest, baseline: true},
	}
}

// Policies lists those that a scheduler may use, the default first.
func Policies() []string { return names(false) }

// Baselines lists those from the literature, to compare others with. They
// know of an agent's tasks only what the cluster itself placed.
func Baselines() []string { return names(true) }

func names(baseline bool) []string {
	var list []string
	for _, s := range scorers() {
		if s.baseline == baseline {
			list = append(list, s.name)
		}
	}
	return list
}

// ParsePolicy returns the policy of that name, which is one of Policies. Its
// error names those there are.
func ParsePolicy(name string) (Policy, error) {
	if list := Policies(); !slices.Contains(list, name) {
		return Policy{}, fmt.Errorf("policy %q is none of %s", name, strings.Join(list, ", "))
	}
	return Policy{Name: name}, nil
}

// scorer finds the policy in the table; one of no known name is the default.
func (p *Policy) scorer() *scorer {
	table := scorers()
	for i := range table {
		if table[i].name == p.Name {
			table[i].seed = p.Seed
			return &table[i]
		}
	}
	return &table[0]
}

// A plain rank has GPU thousandths above CPU thousandths. Agents with more
// than 16,777 GPUs or 68 million CPUs compare as if they had as many.
const (
	gpuBits  = 24
	cpuBits  = 36
	maxPlain = 1 << (gpuBits + cpuBits)
)

func emptiest(r *room, gpuMilli int64) int64 {
	return 1 + min(gpuMilli, 1<<gpuBits-1)<<cpuBits + min(max(r.free.cpus, 0), 1<<cpuBits-1)
}

// fullest prefers the agent with the fewest free GPUs, then CPUs: what is
// left free elsewhere stays together for tasks that want much.
func fullest(r *room, gpuMilli int64) int64 { return maxPlain + 1 - emptiest(r, gpuMilli) }

// rate brings up to date what is known of an agent whatever the task.
func (c *Cluster) rate(i int) {
	r := &c.rooms[i]
	c.plain[i] = c.policy.plain(r, c.idle(r))
	c.glances[i] = glanceOf(r.free.cpus, r.freeGPUs()+min(r.partial, 1))
	if c.world.frag.on {
		r.before = c.fragmented(r)
	}
}

// score says how good an agent is for one task of the class: more is better,
// and 0 is that it does not fit. Work without GPUs goes to agents without,
// whatever the policy.
func (c *Cluster) score(i int, cl *class) int64 {
	if !c.fits(i, cl) {
		return 0
	}
	var k int64
	if c.policy.rank != nil {
		k = c.policy.rank(c, i, cl)
	} else if k = c.plain[i]; cl.shared && c.world.shares {
		k += c.preferred(i, cl)
	}
	if cl.gpus == 0 && !c.rooms[i].kind.hasGPUs {
		k += maxPlain
	}
	return k
}

// closest prefers the agent whose devices for the task have the most links
// among them, then one NUMA node, then those that break the fewest groups,
// and then the fullest.
func closest(c *Cluster, i int, cl *class) int64 {
	const links, broken = 12, 3
	if cl.gpus == 0 {
		return c.plain[i]
	}
	r := &c.rooms[i]
	k := c.plain[i] >> (links + 1 + broken)
	switch {
	case cl.shared && !r.kind.divisible:
		return c.plain[i] + c.preferred(i, cl)
	case cl.shared || !r.named:
		return k + 1 // as coarse as what is seen of whole devices
	}
	p := c.choose(i, cl)
	good := min(int64(p.links), 1<<links-1) << 1
	if p.near && cl.gpus > 1 {
		good++
	}
	good = good<<broken + int64(1<<broken-1-min(p.broke, 1<<broken-1))
	return good<<(gpuBits+cpuBits-links-1-broken) + k + 1
}

// tightest is the slot with the least free that is enough.
func tightest(c *Cluster, i int, cl *class) int {
	r := &c.rooms[i]
	best, least := -1, int32(math.MaxInt32)
	c.partSlots(r, cl, func(s int) bool {
		if n := c.looseness(r, s); n < least {
			best, least = s, n
		}
		return true
	})
	return best
}

// roomiest is the slot with the most free.
func roomiest(c *Cluster, i int, cl *class) int {
	r := &c.rooms[i]
	best, most := -1, int32(-1)
	c.partSlots(r, cl, func(s int) bool {
		if n := c.looseness(r, s); n > most {
			best, most = s, n
		}
		return true
	})
	return best
}

package fit

import "math/bits"

// ranking remembers how good each agent is for one class, and learns of
// changes from the cluster's log when it is asked again.
type ranking struct {
	rank []int64 // 0: does not fit
	top  int     // of the best agent; none or unknown
	seen int     // of the log
	used int
}

// What top is if it is no agent: none fits, or one must look.
const (
	none    = -1
	unknown = -2
)

// rankings are those of a cluster's classes, and the log of the agents that
// changed. Rankings that have not been asked for long go first.
type rankings struct {
	byClass map[int32]*ranking
	log     []int32
	dropped int // entries of the log that were cut off
	agents  int
	most    int // rankings to keep
	clock   int
	draws   uint64 // of lots
}

// maxRanked bounds what all rankings of a cluster hold together, in agents.
const maxRanked = 8 << 20

func (s *rankings) start(agents int) {
	*s = rankings{byClass: map[int32]*ranking{}, agents: agents, most: max(8, maxRanked/max(agents, 1))}
}

// again is start for a cluster that is in another state: what it ranked tells
// nothing any more, but the memory serves.
func (s *rankings) again(agents int) {
	if s.agents != agents || s.byClass == nil {
		s.start(agents)
		return
	}
	for _, r := range s.byClass {
		r.seen = -1
	}
	s.log, s.dropped, s.draws = s.log[:0], 0, 0
}

func (s *rankings) changed(i int) {
	if len(s.byClass) == 0 {
		return
	}
	if len(s.log) >= 2*s.agents { // who missed more looks at all agents anyway
		s.dropped += s.agents
		s.log = append(s.log[:0], s.log[s.agents:]...)
	}
	s.log = append(s.log, int32(i))
}

// of returns the ranking of a class, up to date.
func (s *rankings) of(c *Cluster, cl *class) *ranking {
	s.clock++
	r := s.byClass[cl.id]
	if r == nil {
		r = s.room()
		s.byClass[cl.id] = r
		r.seen = -1
	}
	r.used = s.clock
	r.update(c, cl)
	return r
}

// room finds memory for one more ranking.
func (s *rankings) room() *ranking {
	if len(s.byClass) < s.most {
		return &ranking{rank: make([]int64, s.agents)}
	}
	oldest := int32(-1)
	for id, r := range s.byClass {
		if oldest < 0 || r.used < s.byClass[oldest].used {
			oldest = id
		}
	}
	r := s.byClass[oldest]
	delete(s.byClass, oldest)
	return r
}

func (r *ranking) update(c *Cluster, cl *class) {
	s := &c.ranks
	end := s.dropped + len(s.log)
	if r.seen < s.dropped || end-r.seen >= s.agents {
		r.top = unknown
		c.world.states.begin(s.agents)
		cpus, gpus := cl.least.cpus, cl.least.gpus
		clear(r.rank)
		for _, i := range c.world.members(cl.role) {
			if g := c.glances[i]; g.cpus >= cpus && g.gpus >= gpus {
				r.rank[i] = c.scan(int(i), cl)
			}
		}
	} else {
		for _, i := range s.log[r.seen-s.dropped:] {
			r.set(int(i), c.score(int(i), cl))
		}
	}
	r.seen = end
}

// set notes how good one agent is now.
func (r *ranking) set(i int, k int64) {
	old := r.rank[i]
	r.rank[i] = k
	switch {
	case r.top == unknown:
	case i == r.top:
		if k < old {
			r.top = unknown
		}
	case k > 0 && (r.top == none || k > r.rank[r.top] || k == r.rank[r.top] && i < r.top):
		r.top = i
	}
}

// best is the agent that suits the class most, -1 if none does.
func (r *ranking) best(c *Cluster, cl *class) int {
	r.update(c, cl)
	if r.top == unknown {
		most := int64(0)
		r.top = none
		for _, i := range c.world.members(cl.role) {
			if k := r.rank[i]; k > most {
				r.top, most = int(i), k
			}
		}
	}
	if c.policy.lots && r.top >= 0 {
		return c.anyOf(r.rank, r.rank[r.top])
	}
	return r.top
}

// anyOf is one of the agents of that rank, by lot.
func (c *Cluster) anyOf(rank []int64, most int64) int {
	best, n := -1, 0
	for i, k := range rank {
		if k == most {
			if n++; c.lot(n) {
				best = i
			}
		}
	}
	return best
}

// lot draws one of n: the nth of equals that are seen one by one takes the
// place of those before it with that chance. Equal seeds draw the same.
func (c *Cluster) lot(n int) bool {
	c.ranks.draws++
	x := c.policy.seed + c.ranks.draws*0x9e3779b97f4a7c15 // SplitMix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	hi, _ := bits.Mul64(x^x>>31, uint64(n))
	return hi == 0
}

// bestOnce is what best says, found without a ranking.
func (c *Cluster) bestOnce(cl *class) int {
	best, most := -1, int64(0)
	c.world.states.begin(len(c.rooms))
	// Its rank is then known.
	plain := c.policy.rank == nil && cl.gpus > 0 && !(cl.shared && c.world.shares)
	cpus, gpus := cl.least.cpus, cl.least.gpus
	for _, i := range c.world.members(cl.role) {
		if g := c.glances[i]; g.cpus < cpus || g.gpus < gpus || plain && c.plain[i] <= most {
			continue
		}
		if k := c.scan(int(i), cl); k > most {
			best, most = int(i), k
		}
	}
	return best
}

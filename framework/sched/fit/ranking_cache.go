package fit

import "math/bits"

// classRanking remembers how good each agent is for one class, and learns of
// changes from the cluster's log when it is asked again.
type classRanking struct {
	scores      []int64 // 0: does not fit
	best        int     // of the best agent; none or unknown
	logPosition int     // of the log
	lastUsed    int
}

// What top is if it is no agent: none fits, or one must look.
const (
	noAgent      = -1
	unknownAgent = -2
)

// rankingCache are those of a cluster's classes, and the log of the agents that
// changed. Rankings that have not been asked for long go first.
type rankingCache struct {
	byClass        map[int32]*classRanking
	log            []int32
	droppedEntries int // entries of the log that were cut off
	agents         int
	capacity       int // rankings to keep
	clock          int
	draws          uint64 // of lots
}

// maxRankedAgents bounds what all rankings of a cluster hold together, in agents.
const maxRankedAgents = 8 << 20

func (s *rankingCache) reset(agents int) {
	*s = rankingCache{byClass: map[int32]*classRanking{}, agents: agents, capacity: max(8, maxRankedAgents/max(agents, 1))}
}

// invalidate is start for a cluster that is in another state: what it ranked tells
// nothing any more, but the memory serves.
func (s *rankingCache) invalidate(agents int) {
	if s.agents != agents || s.byClass == nil {
		s.reset(agents)
		return
	}
	for _, r := range s.byClass {
		r.logPosition = -1
	}
	s.log, s.droppedEntries, s.draws = s.log[:0], 0, 0
}

func (s *rankingCache) logChange(i int) {
	if len(s.byClass) == 0 {
		return
	}
	if len(s.log) >= 2*s.agents { // who missed more looks at all agents anyway
		s.droppedEntries += s.agents
		s.log = append(s.log[:0], s.log[s.agents:]...)
	}
	s.log = append(s.log, int32(i))
}

// rankingFor returns the ranking of a class, up to date.
func (s *rankingCache) rankingFor(c *Cluster, cl *demandClass) *classRanking {
	s.clock++
	r := s.byClass[cl.id]
	if r == nil {
		r = s.allocateRanking()
		s.byClass[cl.id] = r
		r.logPosition = -1
	}
	r.lastUsed = s.clock
	r.updateScores(c, cl)
	return r
}

// allocateRanking finds memory for one more ranking.
func (s *rankingCache) allocateRanking() *classRanking {
	if len(s.byClass) < s.capacity {
		return &classRanking{scores: make([]int64, s.agents)}
	}
	oldest := int32(-1)
	for id, r := range s.byClass {
		if oldest < 0 || r.lastUsed < s.byClass[oldest].lastUsed {
			oldest = id
		}
	}
	r := s.byClass[oldest]
	delete(s.byClass, oldest)
	return r
}

func (r *classRanking) updateScores(c *Cluster, cl *demandClass) {
	s := &c.rankings
	end := s.droppedEntries + len(s.log)
	if r.logPosition < s.droppedEntries || end-r.logPosition >= s.agents {
		r.best = unknownAgent
		c.index.scores.beginScan(s.agents)
		cpus, gpus := cl.minimum.cpus, cl.minimum.gpus
		clear(r.scores)
		for _, i := range c.index.roleAgents(cl.roleID) {
			if g := c.hints[i]; g.cpus >= cpus && g.gpus >= gpus {
				r.scores[i] = c.scoreCached(int(i), cl)
			}
		}
	} else {
		for _, i := range s.log[r.logPosition-s.droppedEntries:] {
			r.setScore(int(i), c.scoreAgent(int(i), cl))
		}
	}
	r.logPosition = end
}

// setScore notes how good one agent is now.
func (r *classRanking) setScore(i int, k int64) {
	old := r.scores[i]
	r.scores[i] = k
	switch {
	case r.best == unknownAgent:
	case i == r.best:
		if k < old {
			r.best = unknownAgent
		}
	case k > 0 && (r.best == noAgent || k > r.scores[r.best] || k == r.scores[r.best] && i < r.best):
		r.best = i
	}
}

// bestAgent is the agent that suits the class most, -1 if none does.
func (r *classRanking) bestAgent(c *Cluster, cl *demandClass) int {
	r.updateScores(c, cl)
	if r.best == unknownAgent {
		most := int64(0)
		r.best = noAgent
		for _, i := range c.index.roleAgents(cl.roleID) {
			if k := r.scores[i]; k > most {
				r.best, most = int(i), k
			}
		}
	}
	if c.policy.drawsLots && r.best >= 0 {
		return c.drawAgent(r.scores, r.scores[r.best])
	}
	return r.best
}

// drawAgent is one of the agents of that rank, by lot.
func (c *Cluster) drawAgent(rank []int64, most int64) int {
	best, n := -1, 0
	for i, k := range rank {
		if k == most {
			if n++; c.drawLot(n) {
				best = i
			}
		}
	}
	return best
}

// drawLot draws one of n: the nth of equals that are seen one by one takes the
// place of those before it with that chance. Equal seeds draw the same.
func (c *Cluster) drawLot(n int) bool {
	c.rankings.draws++
	x := c.policy.seed + c.rankings.draws*0x9e3779b97f4a7c15 // SplitMix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	hi, _ := bits.Mul64(x^x>>31, uint64(n))
	return hi == 0
}

// scanForBest is what best says, found without a ranking.
func (c *Cluster) scanForBest(cl *demandClass) int {
	best, most := -1, int64(0)
	c.index.scores.beginScan(len(c.capacities))
	// Its rank is then known.
	plain := c.policy.scoreTask == nil && cl.gpus > 0 && !(cl.wantsShares && c.index.hasSharedDevices)
	cpus, gpus := cl.minimum.cpus, cl.minimum.gpus
	for _, i := range c.index.roleAgents(cl.roleID) {
		if g := c.hints[i]; g.cpus < cpus || g.gpus < gpus || plain && c.agentScores[i] <= most {
			continue
		}
		if k := c.scoreCached(int(i), cl); k > most {
			best, most = int(i), k
		}
	}
	return best
}

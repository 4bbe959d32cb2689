package index

import "slices"

// Ranking stores the score of each agent for one class of demands; 0 means
// that the agent does not fit. It is updated from the log of its Rankings.
type Ranking struct {
	// scores has one score for each agent, up to date as of logPosition.
	scores []int64
	// blockBest has the highest score of each block of blockSize agents, or unknownScore if it must be searched: so
	// that the search for the best agent need not visit every agent.
	blockBest []int64
	// logPosition is the number of log entries that are applied, dropped ones included. It is -1 if all scores are
	// unknown.
	logPosition int
	// lastUsed is the value of Rankings.clock when the ranking was last returned.
	lastUsed int
}

const (
	blockSize    = 64
	unknownScore = -1
)

// maxRankedAgents bounds the scores that all rankings of one Rankings store.
const maxRankedAgents = 8 << 20

// Rankings stores the rankings of several classes and a log of the agents that changed. Above the limit it drops the
// ranking that was used least recently.
type Rankings struct {
	// byClass are the rankings by the number of their class.
	byClass map[int32]*Ranking
	// log has the agents that changed, in order. dropped counts the entries that were cut off its start.
	log     []int32
	dropped int
	// agents is the number of agents. limit bounds the number of rankings; Reset derives it from agents.
	agents, limit int
	// clock counts the calls of Get.
	clock int
}

// Reset removes all rankings and sets the number of agents.
func (s *Rankings) Reset(agents int) {
	*s = Rankings{byClass: map[int32]*Ranking{}, agents: agents, limit: max(8, maxRankedAgents/max(agents, 1))}
}

// SetLimit sets how many rankings are kept, at least 1.
func (s *Rankings) SetLimit(n int) { s.limit = max(n, 1) }

// Len returns how many rankings are stored.
func (s *Rankings) Len() int { return len(s.byClass) }

// Invalidate makes all scores unknown and keeps the memory. If the number of
// agents differs, it does the same as Reset.
func (s *Rankings) Invalidate(agents int) {
	if s.agents != agents || s.byClass == nil {
		s.Reset(agents)
		return
	}
	for _, r := range s.byClass {
		r.logPosition = -1
	}
	s.log, s.dropped = s.log[:0], 0
}

// AgentChanged records that the scores of an agent may differ from now on.
func (s *Rankings) AgentChanged(i int) {
	if len(s.byClass) == 0 {
		return
	}
	if len(s.log) >= 2*s.agents { // a ranking that missed more is computed in full
		s.dropped += s.agents
		s.log = append(s.log[:0], s.log[s.agents:]...)
	}
	s.log = append(s.log, int32(i))
}

// Get returns the ranking of a class, up to date. It calls scoreOne for each
// agent that changed since the last call, or, if there are many, scoreAll with
// scores that are all 0.
func (s *Rankings) Get(class int32, scoreAll func(scores []int64), scoreOne func(i int) int64) *Ranking {
	s.clock++
	r := s.byClass[class]
	if r == nil {
		r = s.allocateRanking()
		s.byClass[class] = r
		r.logPosition = -1
	}
	r.lastUsed = s.clock
	end := s.dropped + len(s.log)
	if r.logPosition < s.dropped || end-r.logPosition >= s.agents {
		clear(r.scores)
		scoreAll(r.scores)
		for block := range r.blockBest {
			r.blockBest[block] = unknownScore
		}
	} else {
		for _, i := range s.log[r.logPosition-s.dropped:] {
			r.setScore(int(i), scoreOne(int(i)))
		}
	}
	r.logPosition = end
	return r
}

// allocateRanking returns a new ranking, or the memory of the one that was used
// least recently.
func (s *Rankings) allocateRanking() *Ranking {
	if len(s.byClass) < s.limit {
		return &Ranking{scores: make([]int64, s.agents), blockBest: make([]int64, (s.agents+blockSize-1)/blockSize)}
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

func (r *Ranking) setScore(i int, score int64) {
	old, best := r.scores[i], &r.blockBest[i/blockSize]
	r.scores[i] = score
	switch {
	case *best == unknownScore:
	case score >= *best:
		*best = score
	case old == *best:
		*best = unknownScore // another agent of the block may have the same score
	}
}

// Scores returns the score of each agent. The caller must not change the slice.
func (r *Ranking) Scores() []int64 { return r.scores }

// Best returns the agent with the highest score, the first one if several have it, or -1 if none fits.
func (r *Ranking) Best() int {
	first, highest := 0, int64(0) // first is the first agent of the best block
	for block, best := range r.blockBest {
		start := block * blockSize
		if best == unknownScore {
			best = slices.Max(r.scores[start:min(start+blockSize, len(r.scores))])
			r.blockBest[block] = best
		}
		if best > highest {
			first, highest = start, best
		}
	}
	if highest == 0 {
		return -1
	}
	return first + slices.Index(r.scores[first:], highest)
}

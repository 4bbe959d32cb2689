package fit

import "encoding/binary"

// states gives agents in the same state the same number, so that what takes
// long to score is scored once for all of them.
type states struct {
	number     map[string]int32
	generation uint32 // of the numbers: they start again when there are many
	scan       uint32
	scored     []scored
	key        []byte // scratch
}

// scored is what a scan found out about a state.
type scored struct {
	scan   uint32
	rank   int64
	before float64
}

// begin starts a scan over all agents for one class.
func (s *states) begin(agents int) {
	if len(s.number) > 2*agents+1024 || s.scan == 1<<32-1 {
		clear(s.number)
		s.generation++
		s.scan = 0
		s.scored = s.scored[:0]
	}
	s.scan++
}

// state is the number of the agent's.
func (c *Cluster) state(r *room) int32 {
	s := &c.world.states
	if r.generation == s.generation {
		return r.state
	}
	b := s.key[:0]
	for _, n := range [...]int64{int64(r.kind.id), int64(r.gpus), int64(r.hold), r.free.cpus, r.free.mem, r.free.disk} {
		b = binary.AppendVarint(b, n)
	}
	for _, m := range c.wholeOf(r) {
		b = binary.LittleEndian.AppendUint64(b, m)
	}
	if r.named {
		b = append(b, 'N')
	}
	if r.part >= 0 && (r.partial > 0 || !r.kind.divisible) {
		for s, p := range c.partsOf(r) {
			b = binary.AppendVarint(b, int64(p.mem))
			if !r.kind.divisible {
				all := c.alls[int(r.part)+s]
				for _, n := range [...]int32{p.cores, all.mem, all.cores} {
					b = binary.AppendVarint(b, int64(n))
				}
			}
		}
	}
	s.key = b
	n, ok := s.number[string(b)]
	if !ok {
		n = int32(len(s.number))
		s.number[string(b)] = n
		s.scored = append(s.scored, scored{})
	}
	r.state, r.generation = n, s.generation
	return n
}

// scan is score for one of many agents: those in the same state share it.
func (c *Cluster) scan(i int, cl *class) int64 {
	if !c.policy.costly || cl.wish.named {
		return c.score(i, cl)
	}
	r := &c.rooms[i]
	if !c.admits(i, r, cl) {
		return 0
	}
	n := c.state(r)
	s := &c.world.states
	if at := &s.scored[n]; at.scan != s.scan {
		at.scan, at.rank = s.scan, c.score(i, cl)
	}
	return s.scored[n].rank
}

package fit

import "encoding/binary"

// scoreCache gives agents in the same state the same number, so that what takes
// long to score is scored once for all of them.
type scoreCache struct {
	numbers    map[string]int32
	generation uint32 // of the numbers: they start again when there are many
	scan       uint32
	entries    []cachedScore
	keyScratch []byte // scratch
}

// cachedScore is what a scan found out about a state.
type cachedScore struct {
	scan          uint32
	score         int64
	fragmentation float64
}

// beginScan starts a scan over all agents for one class.
func (s *scoreCache) beginScan(agents int) {
	if len(s.numbers) > 2*agents+1024 || s.scan == 1<<32-1 {
		clear(s.numbers)
		s.generation++
		s.scan = 0
		s.entries = s.entries[:0]
	}
	s.scan++
}

// stateNumberOf is the number of the agent's.
func (c *Cluster) stateNumberOf(r *agentCapacity) int32 {
	s := &c.index.scores
	if r.stateGeneration == s.generation {
		return r.stateNumber
	}
	b := s.keyScratch[:0]
	for _, n := range [...]int64{int64(r.hardware.id), int64(r.scalarGPUs), int64(r.reservation), r.free.cpus, r.free.mem, r.free.disk} {
		b = binary.AppendVarint(b, n)
	}
	for _, m := range c.wholeMask(r) {
		b = binary.LittleEndian.AppendUint64(b, m)
	}
	if r.hasDeviceIDs {
		b = append(b, 'N')
	}
	if r.shareOffset >= 0 && (r.partialSlots > 0 || !r.hardware.divisible) {
		for s, p := range c.freeSharesOf(r) {
			b = binary.AppendVarint(b, int64(p.mem))
			if !r.hardware.divisible {
				all := c.totalShares[int(r.shareOffset)+s]
				for _, n := range [...]int32{p.cores, all.mem, all.cores} {
					b = binary.AppendVarint(b, int64(n))
				}
			}
		}
	}
	s.keyScratch = b
	n, ok := s.numbers[string(b)]
	if !ok {
		n = int32(len(s.numbers))
		s.numbers[string(b)] = n
		s.entries = append(s.entries, cachedScore{})
	}
	r.stateNumber, r.stateGeneration = n, s.generation
	return n
}

// scoreCached is score for one of many agents: those in the same state share it.
func (c *Cluster) scoreCached(i int, cl *demandClass) int64 {
	if !c.policy.isExpensive || cl.requirement.namesDevices {
		return c.scoreAgent(i, cl)
	}
	r := &c.capacities[i]
	if !c.admitsClass(i, r, cl) {
		return 0
	}
	n := c.stateNumberOf(r)
	s := &c.index.scores
	if at := &s.entries[n]; at.scan != s.scan {
		at.scan, at.score = s.scan, c.scoreAgent(i, cl)
	}
	return s.entries[n].score
}

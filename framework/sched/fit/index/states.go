package index

import "math"

// States numbers agents by their state: agents in the same state get the same
// number. The numbers start again when there are many.
type States struct {
	// numbers has the states of the current generation.
	numbers Table[int32]
	// generation counts the numberings before the current one.
	generation uint32
}

// Generation identifies the current numbering; it is never 0. A number is
// valid as long as its generation is the current one.
func (s *States) Generation() uint32 { return s.generation + 1 }

// Shrink starts a new numbering if there are far more numbers than agents.
func (s *States) Shrink(agents int) {
	if s.numbers.Len() > 2*agents+1024 {
		s.numbers.Clear()
		s.generation++
	}
}

// Scratch returns an empty buffer to append a key to.
func (s *States) Scratch() []byte { return s.numbers.Scratch() }

// Number returns the number of the state that the key describes in full.
func (s *States) Number(key []byte) int32 {
	return s.numbers.Get(key, func(id int32) int32 { return id })
}

// Scan stores one result for each state while all agents are scanned once.
type Scan[V any] struct {
	// scan numbers the scans from 1. results are valid if their number is the current one.
	scan    uint32
	results []scanResult[V]
}

type scanResult[V any] struct {
	// scan is the number of the scan in which value was computed.
	scan  uint32
	value V
}

// Begin starts a new scan: the results of the one before are not used again.
func (s *Scan[V]) Begin() {
	if s.scan == math.MaxUint32 {
		*s = Scan[V]{}
	}
	s.scan++
}

// Get returns the result for a state, which compute returns once in each scan.
func (s *Scan[V]) Get(state int32, compute func() V) V {
	for int(state) >= len(s.results) {
		s.results = append(s.results, scanResult[V]{})
	}
	if s.results[state].scan != s.scan {
		s.results[state] = scanResult[V]{s.scan, compute()}
	}
	return s.results[state].value
}

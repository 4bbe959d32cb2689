package nvml

import (
	"fmt"
	"sync"
	"time"
)

// callGate lets many in, or one alone, as a sync.RWMutex does, and unlike it
// copes with a caller inside who never leaves: who waits to be alone keeps
// others out for a moment at a time, and in the end gives up.
type callGate struct {
	entry, inside sync.RWMutex
}

// exclusiveAttempt is how long one try to be alone keeps others out.
const exclusiveAttempt = 100 * time.Millisecond

func (g *callGate) enter() {
	g.entry.RLock()
	defer g.entry.RUnlock()
	g.inside.RLock()
}

// tryEnter enters where that takes no waiting.
func (g *callGate) tryEnter() bool {
	if !g.entry.TryRLock() {
		return false
	}
	defer g.entry.RUnlock()
	return g.inside.TryRLock()
}

func (g *callGate) leave() { g.inside.RUnlock() }

// enterAlone enters once all others have left, and keeps them out until leave.
func (g *callGate) enterAlone(patience time.Duration) (leave func(), err error) {
	for deadline := time.Now().Add(patience); ; {
		if g.tryEnterAlone(min(exclusiveAttempt, patience)) {
			return g.inside.Unlock, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("start NVML: a call into it has not returned for %s; see dmesg for the GPU that hangs", patience)
		}
	}
}

func (g *callGate) tryEnterAlone(patience time.Duration) bool {
	g.entry.Lock()
	defer g.entry.Unlock()
	const step = time.Millisecond
	for deadline := time.Now().Add(patience); !g.inside.TryLock(); time.Sleep(step) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

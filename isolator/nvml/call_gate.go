package nvml

import (
	"fmt"
	"sync"
	"time"
)

// callGate admits many callers, or one alone, as a sync.RWMutex does. Unlike it, the gate
// tolerates a caller that never leaves: a caller that waits to be alone keeps others out only
// for short attempts, and gives up in the end.
type callGate struct {
	entry, inside sync.RWMutex
}

// exclusiveAttempt is how long one attempt to be alone keeps others out.
const exclusiveAttempt = 100 * time.Millisecond

func (g *callGate) enter() {
	g.entry.RLock()
	defer g.entry.RUnlock()
	g.inside.RLock()
}

// tryEnter enters if it can without waiting.
func (g *callGate) tryEnter() bool {
	if !g.entry.TryRLock() {
		return false
	}
	defer g.entry.RUnlock()
	return g.inside.TryRLock()
}

func (g *callGate) leave() { g.inside.RUnlock() }

// enterAlone enters once all others have left, and keeps them out until leave is called.
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

package nvml

import (
	"fmt"
	"sync"
	"time"
)

// gate lets many in, or one alone, as a sync.RWMutex does, and unlike it
// copes with a caller inside who never leaves: who waits to be alone keeps
// others out for a moment at a time, and in the end gives up.
type gate struct {
	door, inside sync.RWMutex
}

// heldShut is how long one try to be alone keeps others out.
const heldShut = 100 * time.Millisecond

func (g *gate) enter() {
	g.door.RLock()
	defer g.door.RUnlock()
	g.inside.RLock()
}

// tryEnter enters where that takes no waiting.
func (g *gate) tryEnter() bool {
	if !g.door.TryRLock() {
		return false
	}
	defer g.door.RUnlock()
	return g.inside.TryRLock()
}

func (g *gate) leave() { g.inside.RUnlock() }

// alone enters once all others have left, and keeps them out until leave.
func (g *gate) alone(patience time.Duration) (leave func(), err error) {
	for deadline := time.Now().Add(patience); ; {
		if g.tryAlone(min(heldShut, patience)) {
			return g.inside.Unlock, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("start NVML: a call into it has not returned for %s; see dmesg for the GPU that hangs", patience)
		}
	}
}

func (g *gate) tryAlone(patience time.Duration) bool {
	g.door.Lock()
	defer g.door.Unlock()
	const step = time.Millisecond
	for deadline := time.Now().Add(patience); !g.inside.TryLock(); time.Sleep(step) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

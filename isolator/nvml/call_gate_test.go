package nvml

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A caller that never leaves blocks only exclusive callers.
func TestGateWithStuckCaller(t *testing.T) {
	var g callGate
	g.enter()
	gaveUp := make(chan error)
	go func() {
		_, err := g.enterAlone(3 * exclusiveAttempt)
		gaveUp <- err
	}()
	for entered := 0; ; entered++ {
		g.enter()
		g.leave()
		select {
		case err := <-gaveUp:
			if err == nil || !strings.Contains(err.Error(), "has not returned for 300ms") {
				t.Errorf("alone: %v", err)
			}
			if entered == 0 {
				t.Error("no other caller entered meanwhile")
			}
		default:
			continue
		}
		break
	}
	if !g.tryEnter() {
		t.Error("blocked although no caller waits for exclusive access")
	}
	g.leave()
	g.leave()
	leave, err := g.enterAlone(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if g.tryEnter() {
		t.Error("entered while one is alone")
	}
	leave()
}

// An exclusive caller gets in under any load.
func TestGateUnderLoad(t *testing.T) {
	var g callGate
	var stop atomic.Bool
	var all sync.WaitGroup
	alone := 0
	for range 8 {
		all.Go(func() {
			for !stop.Load() {
				g.enter()
				_ = alone
				g.leave()
			}
		})
	}
	for range 20 {
		leave, err := g.enterAlone(10 * time.Second)
		if err != nil {
			t.Error(err)
			break
		}
		alone++
		leave()
	}
	stop.Store(true)
	all.Wait()
}

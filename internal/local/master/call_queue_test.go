package master

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"mesos-gpu/internal/local/link"
)

func TestCallQueueKeepsOrderAndEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left behind
		var workers sync.WaitGroup
		var queue link.CallQueue
		post := func(call func()) {
			if queue.Post(call) {
				workers.Go(queue.RunCalls)
			}
		}
		var got []int
		hold := make(chan struct{})
		post(func() { <-hold })
		for n := range 5 {
			post(func() { got = append(got, n) })
		}
		close(hold)
		workers.Wait()
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		blocked := make(chan struct{})
		post(func() { <-blocked })
		post(func() { t.Error("delivered after close") })
		synctest.Wait()
		queue.Close()
		close(blocked)
		workers.Wait()
		post(func() { t.Error("posted after close") })
		workers.Wait()
	})
}

// An agent that hangs does not delay calls to other agents.
func TestHangingAgentDelaysNoOther(t *testing.T) {
	m := New(MasterConfig{})
	c := subscribe(t, m, info())
	a := register(t, m, cpuAgent)
	a.runs = make(chan run) // without a reader Run blocks
	offers := c.offers(t)
	c.accept(t, 1000, offers, launch(taskInfo("t", a.id, "cpus:1"), taskInfo("u", a.id, "cpus:1")))
	b := register(t, m, cpuAgent)
	c.accept(t, 0, c.offers(t), launch(taskInfo("v", b.id, "cpus:1")))
	if got := b.nextRun(t); got.task.TaskID.Value != "v" {
		t.Errorf("got %v", got)
	}
	for _, want := range []string{"t", "u"} {
		if got := a.nextRun(t); got.task.TaskID.Value != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	m.workers.Wait()
}

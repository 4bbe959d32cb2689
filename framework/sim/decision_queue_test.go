package sim

import (
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// newSharedCluster returns a cluster of one agent with two T4s, the first of which has 400 thousandths left. Its
// typical tasks fill either GPU.
func newSharedCluster(t *testing.T) *fit.Cluster {
	t.Helper()
	a := RecordedAgent{Name: "n1", CPUMilli: 32000, MemMiB: 1 << 16, GPUs: 2, Model: "T4"}
	part := RecordedTask{GPUs: 1, GPUMilli: 600}
	fits := RecordedTask{GPUs: 1, GPUMilli: 400}
	whole := RecordedTask{GPUs: 1, GPUMilli: milliPerGPU}
	typical := []fit.TypicalTask{{Demand: fits.fitDemand(), Weight: 1}, {Demand: whole.fitDemand(), Weight: 1}}
	c := fit.NewCluster([]fit.AgentResources{a.fitAgent()}, fit.PlacementPolicy{Name: "headroom", Typical: typical}, time.Time{})
	d := part.fitDemand()
	if spots := c.PlaceTasks(&d, 1); len(spots) != 1 {
		t.Fatal("no place for the first task")
	}
	return c
}

// decisionOrder returns the names of tasks in the order in which the queue releases them. Those after the bar are
// released when no more tasks arrive. milli has the thousandths of each task.
func decisionOrder(t *testing.T, places int, milli ...int) string {
	t.Helper()
	c, q, got := newSharedCluster(t), decisionQueue{capacity: places}, ""
	for i, m := range milli {
		if next := q.addTask(&RecordedTask{Name: string(rune('a' + i)), GPUs: 1, GPUMilli: m}, c); next != nil {
			got += next.Name
		}
	}
	got += "|"
	for next := q.nextTask(c); next != nil; next = q.nextTask(c) {
		got += next.Name
	}
	return got
}

func TestQueueOrder(t *testing.T) {
	for name, c := range map[string]struct {
		places int
		milli  []int
		want   string
	}{
		"none waits":                 {0, []int{300, 1000, 400}, "abc|"},
		"one place, no choice":       {1, []int{300, 1000, 400}, "abc|"},
		"what fits best goes first":  {3, []int{300, 1000, 400}, "c|ba"},
		"the first of equals":        {3, []int{400, 400, 400}, "a|bc"},
		"all wait and then go":       {9, []int{300, 400}, "|ba"},
		"four more may go before it": {2, []int{300, 400, 400, 400, 400, 400, 400}, "bcdeaf|g"},
	} {
		if got := decisionOrder(t, c.places, c.milli...); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// Each task is decided once, however many may wait, and a queue does not lower the allocation of the policy.
func TestRunWithQueue(t *testing.T) {
	trace := openb(t, "testdata", "gpushare100")
	typical := trace.TypicalTasks()
	alone := trace.RunSeed("headroom", typical, 42, 0)
	with := trace.RunSeed("headroom", typical, 42, 30)
	if with.Decisions != alone.Decisions {
		t.Errorf("%d decisions with a queue, %d without", with.Decisions, alone.Decisions)
	}
	if got, want := with.Allocation[100], alone.Allocation[100]; got < want {
		t.Errorf("with a queue %.2f %% are allocated, without %.2f", got, want)
	}
}

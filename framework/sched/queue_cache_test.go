package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// The cached jobs are those of the queue, in its order, also after a job has ended and another one with its name was
// submitted.
func TestQueueCacheFollowsQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st, now := New(SchedulerSettings{MaxEndedTasks: 2}, RecoveredState{}), time.Unix(1_700_000_000, 0)
		names := []string{"a", "b", "c", "d"}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			if rapid.Bool().Draw(t, "submit") {
				st.Step(now, SubmitJob{Spec: testSpec(name)})
			} else {
				st.Step(now, KillJob{Job: name})
			}
			if rapid.Bool().Draw(t, "look") {
				var got []*job.Job
				for _, q := range st.queueCache.queuedJobs(&st.jobTable) {
					got = append(got, q.Job)
				}
				if want := slices.Collect(st.queue.all()); !slices.Equal(got, want) {
					t.Fatalf("%d jobs are cached, want the %d of %v", len(got), len(want), want)
				}
			}
		}
	})
}

// The numbers of demands do not grow without end: they are forgotten between cycles once there are too many.
func TestDemandNumbersAreBounded(t *testing.T) {
	numbers := func(n int) queueCache {
		c := queueCache{cached: make([]cachedJob, 1), numbers: queue.DemandNumbers{}}
		for i := range n {
			c.numbers[fmt.Sprint(i)] = int32(i)
		}
		c.evictStale()
		return c
	}
	if c := numbers(maxDemandNumbers); len(c.numbers) != maxDemandNumbers || len(c.cached) != 1 {
		t.Errorf("at the limit, %d numbers are left", len(c.numbers))
	}
	if c := numbers(maxDemandNumbers + 1); len(c.numbers) != 0 || len(c.cached) != 0 {
		t.Errorf("above the limit, %d numbers are left", len(c.numbers))
	}
}

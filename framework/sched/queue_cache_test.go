package sched

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

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
				want := make([]*job.Job, 0, len(st.queue))
				for _, name := range st.queue {
					want = append(want, st.jobs.Newest[name])
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%d jobs are cached, want the %d of %v", len(got), len(want), st.queue)
				}
			}
		}
	})
}

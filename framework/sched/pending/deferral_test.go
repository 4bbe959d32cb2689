package pending

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/job"
)

// testTime is the time of the tests in this package.
func testTime() time.Time { return time.Unix(1_700_000_000, 0) }

// taskIn returns a task that has been in a state for that long.
func taskIn(state job.State, since time.Duration) job.Task {
	return job.Task{State: state, Changed: testTime().Add(-since)}
}

// pausedTask returns a waiting task that may be placed after a pause; the pause is over if it is not above 0.
func pausedTask(pause time.Duration) job.Task {
	return job.Task{State: job.Waiting, Changed: testTime().Add(-time.Hour), NotBefore: testTime().Add(pause)}
}

func TestCountReady(t *testing.T) {
	waiting, running := taskIn(job.Waiting, time.Minute), taskIn(job.Running, time.Minute)
	open, met := []job.Dependency{{Job: "first"}}, []job.Dependency{{Job: "first", Met: true}}
	for _, c := range []struct {
		name     string
		spec     job.Spec
		tasks    []job.Task
		ready    int
		since    time.Duration // before testTime; below 0: zero
		deferred map[DeferralReason]int
		held     bool
	}{
		{"nothing waits", job.Spec{}, []job.Task{running, taskIn(job.Finished, 0)}, 0, -1, nil, false},
		{"the first that waits counts", job.Spec{},
			[]job.Task{taskIn(job.Waiting, time.Second), waiting, taskIn(job.Waiting, 2*time.Second)}, 3, time.Minute, nil,
			false},
		{"the end of a pause counts", job.Spec{}, []job.Task{pausedTask(-3 * time.Second)}, 1, 3 * time.Second, nil, false},
		{"a pause that ends now", job.Spec{}, []job.Task{pausedTask(0)}, 1, 0, nil, false},
		{"paused", job.Spec{}, []job.Task{pausedTask(time.Second), waiting, pausedTask(time.Hour)}, 1, time.Minute,
			map[DeferralReason]int{DeferredByBackoff: 2}, false},
		{"a gang waits from when its last task does", job.Spec{Gang: true},
			[]job.Task{waiting, taskIn(job.Waiting, time.Second), waiting}, 3, time.Second, nil, false},
		{"a gang pauses as a whole", job.Spec{Gang: true}, []job.Task{waiting, pausedTask(time.Second)}, 0, -1, map[DeferralReason]int{DeferredByBackoff: 2}, false},
		{"a gang of which a task runs", job.Spec{Gang: true}, []job.Task{waiting, pausedTask(time.Second), running}, 0, -1,
			map[DeferralReason]int{DeferredByGang: 2}, false},
		{"a gang of which a task has ended", job.Spec{Gang: true}, []job.Task{waiting, taskIn(job.Failed, 0)}, 1, time.Minute, nil, false},
		{"dependencies", job.Spec{After: open}, []job.Task{waiting, pausedTask(time.Second)}, 0, -1, map[DeferralReason]int{DeferredByDependency: 2}, false},
		{"dependencies that are met", job.Spec{After: met}, []job.Task{waiting}, 1, time.Minute, nil, false},
		{"a limit of parallel tasks", job.Spec{MaxParallel: 2},
			[]job.Task{running, waiting, waiting, waiting, pausedTask(time.Second)}, 1, -1,
			map[DeferralReason]int{DeferredByMaxParallel: 2, DeferredByBackoff: 1}, false},
		{"a limit that is exceeded", job.Spec{MaxParallel: 1}, []job.Task{running, running, waiting}, 0, -1, map[DeferralReason]int{DeferredByMaxParallel: 1}, false},
		{"a limit that is not reached", job.Spec{MaxParallel: 3}, []job.Task{running, waiting}, 1, -1, nil, false},
		{"on hold", job.Spec{After: open}, []job.Task{waiting, pausedTask(time.Second), running}, 0, -1, map[DeferralReason]int{DeferredByHold: 2}, true},
	} {
		var deferred map[DeferralReason]int
		ready, since := CountReady(testTime(), &job.Job{Spec: new(c.spec), Tasks: c.tasks}, c.held, func(why DeferralReason, tasks int) {
			if deferred == nil {
				deferred = map[DeferralReason]int{}
			}
			deferred[why] += tasks
		})
		want := testTime().Add(-c.since)
		if c.since < 0 {
			want = time.Time{}
		}
		if ready != c.ready || !since.Equal(want) {
			t.Errorf("%s: %d are ready since %s, want %d since %s", c.name, ready, since, c.ready, want)
		}
		if diff := cmp.Diff(c.deferred, deferred); diff != "" {
			t.Errorf("%s: deferred tasks (-want +got):\n%s", c.name, diff)
		}
		if again, _ := CountReady(testTime(), &job.Job{Spec: new(c.spec), Tasks: c.tasks}, c.held, nil); again != c.ready {
			t.Errorf("%s: %d are ready without a function for the others, want %d", c.name, again, c.ready)
		}
	}
}

func TestExplainDeferral(t *testing.T) {
	states := map[string]job.State{"first": job.Running, "second": job.Waiting}
	waiting, running := taskIn(job.Waiting, 0), taskIn(job.Running, 0)
	for _, c := range []struct {
		name             string
		spec             job.Spec
		tasks            []job.Task
		needs, available string
	}{
		{"one dependency", job.Spec{After: []job.Dependency{{Job: "done", Met: true}, {Job: "first"}}}, []job.Task{waiting}, "job first to finish", "it is RUNNING"},
		{"several dependencies", job.Spec{After: []job.Dependency{{Job: "first"}, {Job: "gone"}, {Job: "second"}}}, []job.Task{waiting},
			"job first to finish, job gone to finish, job second to finish", "first is RUNNING, gone no longer exists, second is WAITING"},
		{"one parallel task", job.Spec{MaxParallel: 1}, []job.Task{running, waiting}, "the end of another task of the job", "1 holds a place, and max_parallel is 1"},
		{"two parallel tasks", job.Spec{MaxParallel: 2}, []job.Task{running, waiting, running},
			"the end of another task of the job", "2 hold a place, and max_parallel is 2"},
		{"a limit that is not reached", job.Spec{MaxParallel: 2}, []job.Task{running, pausedTask(time.Second)},
			"its next try, in 1s", "a pause follows an attempt that ended"},
		{"one of a gang", job.Spec{Gang: true}, []job.Task{running, waiting}, "the end of its other tasks", "1 still holds a place, and a gang starts together"},
		{"two of a gang", job.Spec{Gang: true}, []job.Task{running, waiting, running}, "the end of its other tasks",
			"2 still hold a place, and a gang starts together"},
		{"the shortest pause", job.Spec{},
			[]job.Task{pausedTask(time.Minute), pausedTask(9 * time.Second), pausedTask(time.Hour), running},
			"its next try, in 9s", "a pause follows an attempt that ended"},
		{"a part of a second", job.Spec{}, []job.Task{pausedTask(8*time.Second + 1)}, "its next try, in 9s", "a pause follows an attempt that ended"},
		{"a gang that pauses", job.Spec{Gang: true}, []job.Task{pausedTask(time.Minute), waiting}, "its next try, in 1m0s", "a pause follows an attempt that ended"},
	} {
		got := ExplainDeferral(testTime(), &job.Job{Spec: new(c.spec), Tasks: c.tasks}, func(name string) (job.State, bool) {
			state, ok := states[name]
			return state, ok
		})
		if diff := cmp.Diff(placement.PendingCause{Needs: c.needs, Available: c.available}, got); diff != "" {
			t.Errorf("%s: cause (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAllDeferralReasons(t *testing.T) {
	want := []DeferralReason{DeferredByBackoff, DeferredByDependency, DeferredByGang, DeferredByMaxParallel, DeferredByHold}
	if diff := cmp.Diff(want, AllDeferralReasons()); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

package replay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
)

// wrongPredictions are jobs of users whose first job is short and whose second one is long, so that each second job is
// predicted as short. A gang that needs all GPUs arrives among them. second is the longest run of a second job, and head
// the name of the gang.
func wrongPredictions(t *rapid.T, agents int) (works []JobRecord, headArrives time.Duration) {
	add := func(name, owner string, gpus int, at, runs time.Duration) {
		s, err := NewGangSpec(name, gpus, 8, sched.Amount{CPUs: 1, MemMiB: 64})
		if err != nil {
			t.Fatal(err)
		}
		s.Owner, s.Command = owner, []string{"train", owner}
		works = append(works, JobRecord{Spec: s, ArrivesAt: at, RunTimes: []time.Duration{runs}})
	}
	users := rapid.IntRange(16, 64).Draw(t, "users")
	for i := range users {
		add(fmt.Sprintf("first-%d", i), fmt.Sprint("u", i), 1, 0, time.Duration(rapid.IntRange(1, 30).Draw(t, "short"))*time.Second)
	}
	start := time.Duration(users) * 30 * time.Second // all first jobs have ended
	headArrives = start + 10*time.Second
	add("head", "boss", 8*agents, headArrives, time.Minute)
	for i := range users {
		at := headArrives + time.Duration(rapid.IntRange(1, 10_000).Draw(t, "arrival"))*time.Second
		add(fmt.Sprintf("second-%d", i), fmt.Sprint("u", i), 1, at, time.Duration(rapid.IntRange(600, 3600).Draw(t, "long"))*time.Second)
	}
	for i := range 8 * agents { // the cluster is full when the head arrives
		add(fmt.Sprintf("full-%d", i), "filler", 1, start, time.Duration(rapid.IntRange(600, 3600).Draw(t, "full"))*time.Second)
	}
	slices.SortStableFunc(works, func(a, b JobRecord) int { return int(a.ArrivesAt - b.ArrivesAt) })
	return works, headArrives
}

// TestWrongPredictionsDelayNoHeadForever: jobs with predicted run times start before the head of their role as long as it
// is not late. Then it starts when the tasks that run by then have ended, however wrong the predictions were, and nothing
// is killed.
func TestWrongPredictionsDelayNoHeadForever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 2).Draw(t, "agents")
		works, arrives := wrongPredictions(t, n)
		cfg := ReplaySettings{Agents: agents(n), RunTimes: RunTimePredicted}
		cfg.Sched.Policy.Roles = []queue.Role{{Name: "all"}}
		var started time.Duration
		cfg.JobEnded = func(w *JobRecord, at, _ time.Duration) {
			if w.Spec.Name == "head" {
				started = at
			}
		}
		for i := range works {
			works[i].Spec.Role = "all"
		}
		r, err := RunReplay(cfg, slices.Values(works))
		if err != nil {
			t.Fatal(err)
		}
		if r.Preemptions > 0 || r.Never > 0 || r.Refused > 0 {
			t.Fatalf("%d preemptions, %d jobs never ended, %d refused", r.Preemptions, r.Never, r.Refused)
		}
		// Its reservation was made for the end of a task within an hour. It is late a tenth of that or 10 minutes later, and
		// the tasks that run by then need an hour.
		if wait := started - arrives; wait > 3*time.Hour {
			t.Fatalf("the head waited for %s", wait)
		}
	})
}

package sched

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestEndCauseOfEachKindOfEnd checks the cause of each end of an attempt.
func TestEndCauseOfEachKindOfEnd(t *testing.T) {
	code := 3
	asked := func(why job.KillReason) job.Task {
		return job.Task{State: job.Killing, KillRequested: time.Unix(1, 0), KillReason: why}
	}
	runs := job.Task{State: job.Running}
	for name, c := range map[string]struct {
		old  job.Task
		o    attemptResult
		want EndCause
	}{
		"finished":                 {runs, attemptResult{state: job.Finished}, ""},
		"finished although killed": {asked(job.KillByUser), attemptResult{state: job.Finished}, ""},
		"exit code":                {runs, attemptResult{state: job.Failed, exitCode: &code}, CauseExitCode},
		"out of memory": {runs,
			attemptResult{state: job.Failed, exitCode: &code, reason: "REASON_CONTAINER_LIMITATION_MEMORY"},
			"container_limitation_memory"},
		"reason that is not of Mesos": {runs, attemptResult{state: job.Failed, reason: "Out of $luck"}, CauseUnknown},
		"killed":                      {asked(job.KillByUser), attemptResult{state: job.Killed, exitCode: &code}, CauseKilled},
		"preempted":                   {asked(job.KillByPreemption), attemptResult{state: job.Killed}, "preempted"},
		"timeout":                     {asked(job.KillByTimeout), attemptResult{state: job.Failed, reason: "REASON_X"}, "timeout"},
		"drained by Mesos":            {runs, attemptResult{state: job.Killed, drained: true, reason: "REASON_AGENT_DRAINING"}, "drained"},
		"drained by cordon":           {asked(job.KillByDrain), attemptResult{state: job.Killed}, "drained"},
		"image mismatch":              {runs, attemptResult{state: job.Failed, mismatch: MismatchDriver, reason: "REASON_X"}, CauseImageMismatch},
		"waited too long":             {job.Task{State: job.Waiting}, attemptResult{state: job.Failed}, CauseMaxWait},
		"agent away":                  {job.Task{State: job.Unreachable}, attemptResult{state: job.Lost}, CauseAgentAway},
		"no reason":                   {runs, attemptResult{state: job.Lost}, CauseUnknown},
	} {
		if got := c.o.endCause(&c.old); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// countedEnd is what metrics count from a State's operations and transitions.
type countedEnd struct {
	Waited, Offered []time.Duration // the age of the offers
	Declined        []placement.DeclineReason
	Ends            map[EndCause]int
	Held, Plans     int
}

// TestTransitionsReportEachEndOnce checks that an AcceptOffers contains how long its tasks waited and when its last
// offer arrived, a DeclineOffers its reason, and a StateTransition the cause of the task's end.
func TestTransitionsReportEachEndOnce(t *testing.T) {
	st := New(SchedulerSettings{Policy: Policy{Policy: placement.Policy{Roles: []queue.Role{{Name: "research"}}}}, HoldOffers: 5 * time.Second}, RecoveredState{})
	now := time.Unix(1_700_000_000, 0)
	got := countedEnd{Ends: map[EndCause]int{}}
	step := func(ev Event) {
		for _, e := range []Event{ev, Cycle{}} {
			for _, op := range st.Step(now, e) {
				switch o := op.(type) {
				case AcceptOffers:
					got.Offered = append(got.Offered, now.Sub(o.LastOfferAt))
					for _, l := range o.Launches {
						got.Waited = append(got.Waited, l.Waited)
					}
				case DeclineOffers:
					for _, d := range o.Offers {
						got.Declined = append(got.Declined, d.Category)
					}
				}
			}
		}
		for _, m := range st.TakeChanges().Transitions {
			if m.Role != "research" {
				t.Errorf("%s moved in role %q", m.TaskID, m.Role)
			}
			if !m.State.IsLive() {
				got.Ends[m.Cause]++
			}
		}
	}
	offer := func(id, agent string, gpus int) OffersReceived {
		return OffersReceived{Offers: []Offer{{ID: id, AgentID: agent, Role: "research", GPUs: gpus, Free: Amount{CPUs: 8, MemMiB: 8192}}}}
	}
	submit := func(name string, gpus int) {
		s := testSpec(name)
		s.Request = gpu.Request{GPUs: gpus}
		step(SubmitJob{Spec: s})
	}
	step(Subscribed{FrameworkID: "f"})
	step(offer("idle", "a0", 1))
	submit("train", 2)
	now = now.Add(10 * time.Second)
	step(offer("o1", "a1", 1)) // too few
	now = now.Add(2 * time.Second)
	step(offer("o2", "a1", 1)) // enough, together with the first
	submit("large", 4)
	now = now.Add(time.Second)
	step(offer("o3", "a2", 3)) // too few
	step(offer("o4", "a3", 0)) // never enough
	got.Held = st.CountHeldOffers()
	now = now.Add(6 * time.Second)
	step(Tick{})
	step(CordonHost{Host: "a2"})
	step(offer("o5", "a2", 4))
	code := 1
	train, _ := st.Job("train")
	step(TaskUpdate{TaskID: train.Tasks[0].ID, State: job.Failed, ExitCode: &code})
	step(KillJob{Job: "large"})
	got.Plans = st.CountPlans()
	want := countedEnd{
		Waited:   []time.Duration{12 * time.Second},
		Offered:  []time.Duration{0},
		Declined: []placement.DeclineReason{placement.DeclineIdle, placement.DeclineUnwanted, placement.DeclineHeld, placement.DeclineCordoned},
		Ends:     map[EndCause]int{CauseExitCode: 1, "": 1},
		Held:     1,
		Plans:    6,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reported ends (-want +got):\n%s", diff)
	}
}

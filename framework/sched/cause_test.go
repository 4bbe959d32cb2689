package sched

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestCauses: each end of an attempt says why in a word.
func TestCauses(t *testing.T) {
	code := 3
	asked := func(why job.KillReason) job.Task {
		return job.Task{State: job.Killing, KillWanted: time.Unix(1, 0), KillReason: why}
	}
	runs := job.Task{State: job.Running}
	for name, c := range map[string]struct {
		old  job.Task
		o    outcome
		want Cause
	}{
		"finished":          {runs, outcome{state: job.Finished}, ""},
		"finished in time":  {asked(job.ByPerson), outcome{state: job.Finished}, ""},
		"exit code":         {runs, outcome{state: job.Failed, exitCode: &code}, ByExit},
		"out of memory":     {runs, outcome{state: job.Failed, exitCode: &code, reason: "REASON_CONTAINER_LIMITATION_MEMORY"}, "container_limitation_memory"},
		"a stranger's word": {runs, outcome{state: job.Failed, reason: "Out of $luck"}, Unsaid},
		"killed":            {asked(job.ByPerson), outcome{state: job.Killed, exitCode: &code}, OnDemand},
		"preempted":         {asked(job.ByPreemption), outcome{state: job.Killed}, "preempted"},
		"timeout":           {asked(job.ByTimeout), outcome{state: job.Failed, reason: "REASON_X"}, "timeout"},
		"drained by Mesos":  {runs, outcome{state: job.Killed, drained: true, reason: "REASON_AGENT_DRAINING"}, "drained"},
		"drained by us":     {asked(job.ByDrain), outcome{state: job.Killed}, "drained"},
		"unfit":             {runs, outcome{state: job.Failed, unfit: UnfitDriver, reason: "REASON_X"}, Misfit},
		"waited too long":   {job.Task{State: job.Waiting}, outcome{state: job.Failed}, TooLate},
		"agent away":        {job.Task{State: job.Unreachable}, outcome{state: job.Lost}, Away},
		"nobody knows":      {runs, outcome{state: job.Lost}, Unsaid},
	} {
		if got := c.o.cause(&c.old); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// counted is what a State told of a run that can be counted.
type counted struct {
	Waited, Offered []time.Duration // the offers' age
	Declined        []Refusal
	Ends            map[Cause]int
	Held, Plans     int
}

// TestWhatIsToldToCount: an Accept says how long its tasks waited and when the
// last of its offers came, a Decline why, and a Move whose task ended of what.
func TestWhatIsToldToCount(t *testing.T) {
	st := New(Config{Policy: Policy{Roles: []Role{{Name: "research"}}}, HoldOffers: 5 * time.Second}, Past{})
	now := time.Unix(1_700_000_000, 0)
	got := counted{Ends: map[Cause]int{}}
	step := func(ev Event) {
		for _, e := range []Event{ev, Cycle{}} {
			for _, op := range st.Step(now, e) {
				switch o := op.(type) {
				case Accept:
					got.Offered = append(got.Offered, now.Sub(o.Offered))
					for _, l := range o.Launches {
						got.Waited = append(got.Waited, l.Waited)
					}
				case Decline:
					for _, d := range o.Offers {
						got.Declined = append(got.Declined, d.Why)
					}
				}
			}
		}
		for _, m := range st.Drain().Moves {
			if m.Role != "research" {
				t.Errorf("%s moved in role %q", m.TaskID, m.Role)
			}
			if !m.State.Live() {
				got.Ends[m.Cause]++
			}
		}
	}
	offer := func(id, agent string, gpus int) Offers {
		return Offers{Offers: []Offer{{ID: id, AgentID: agent, Role: "research", GPUs: gpus, Free: Amount{CPUs: 8, MemMiB: 8192}}}}
	}
	submit := func(name string, gpus int) {
		s := testSpec(name)
		s.Request = gpu.Request{GPUs: gpus}
		step(Submit{Spec: s})
	}
	step(Subscribed{FrameworkID: "f"})
	step(offer("idle", "a0", 1))
	submit("train", 2)
	now = now.Add(10 * time.Second)
	step(offer("o1", "a1", 1)) // too few
	now = now.Add(2 * time.Second)
	step(offer("o2", "a1", 1)) // enough, with the other
	submit("large", 4)
	now = now.Add(time.Second)
	step(offer("o3", "a2", 3)) // too few
	step(offer("o4", "a3", 0)) // never enough
	got.Held = st.Held()
	now = now.Add(6 * time.Second)
	step(Tick{})
	step(Cordon{Host: "a2"})
	step(offer("o5", "a2", 4))
	code := 1
	train, _ := st.Job("train")
	step(Update{TaskID: train.Tasks[0].ID, State: job.Failed, ExitCode: &code})
	step(Kill{Job: "large"})
	got.Plans = st.Plans()
	want := counted{
		Waited: []time.Duration{12 * time.Second}, Offered: []time.Duration{0}, Declined: []Refusal{Idle, Unwanted, Held, OnCordoned},
		Ends: map[Cause]int{ByExit: 1, "": 1}, Held: 1, Plans: 6,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

package placement

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/job"
)

// TestBlockedClaimsNameWhatBlocks: the reason of a claim for which nothing ends names what keeps tasks from ending for it. The
// cases are in the notation of the page of cases.
func TestBlockedClaimsNameWhatBlocks(t *testing.T) {
	for _, c := range []struct {
		name, agents, roles, running, waiting string
		change                                func(*PlanInput)
		want                                  string
	}{
		{
			"no role borrows", "2", "q0=2 q1=1", "q0:1@0 q0:1@0", "q1:1x1", nil,
			"; no other role holds more than its part",
		},
		{
			"guaranteed tasks", "2", "q0 q1=1", "q0:1@0- q0:1@0-", "q1:1x1", nil,
			"; nothing ends for it: 2 tasks of roles that hold more than their part may not end: guaranteed",
		},
		{
			"young tasks", "2", "q0 q1=1", "q0:1@0 q0:1@0", "q1:1x1",
			func(in *PlanInput) {
				for i := range in.Running {
					in.Running[i].Spec.MinRunTime = 2 * time.Hour
				}
			},
			"; nothing ends for it: 2 tasks of roles that hold more than their part may not end before the min_run_time, the first in 20m0s",
		},
		{
			"tasks that do not end", "1", "q0 q1=1", "q0:1@0", "q1:1x1",
			func(in *PlanInput) { in.Running[0].Stuck = true },
			"; nothing ends for it: 1 task of roles that hold more than their part cannot be ended now",
		},
		{
			"tasks on two agents", "1 1", "q0 q1=2", "q0:1@0 q0:1@1", "q1:1x2", nil,
			"; nothing ends for it: 2 tasks of roles that hold more than their part would not make room for it",
		},
		{
			"preempt_after", "1", "q0 q1=1", "q0:1@0", "q1:1x1",
			func(in *PlanInput) {
				in.Waiting[0].Submitted, in.Waiting[0].Spec.PreemptAfter = planTime(), time.Minute
			},
			"; nothing ends for it before its preempt_after of 1m0s has passed",
		},
		{
			"a role above", "3", "l=1 l/o l/m=1 r=1", "l/o:1@0- r:2@0", "l/m:1x1", nil,
			"; nothing ends for it: with it, role l would hold more than it deserves, " +
				"1 task of roles that hold more than their part may not end: guaranteed, " +
				"1 task of roles that hold more than their part would not make room for it",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeerCase(t, ReclaimDeserved, c.agents, c.roles, c.running, c.waiting)
			if c.change != nil {
				c.change(&p.in)
			}
			plan := p.makePlan()
			if got := plan.BlockedClaims[job.RunID{Name: "w0"}]; got != c.want || len(plan.Preempt) > 0 {
				t.Errorf("the reason is %q, %d tasks end, want %q", got, len(plan.Preempt), c.want)
			}
		})
	}
}

// TestRoleThatTakesBackDoesNotBorrow: while tasks end for a claim, no other task of its role starts that would take the claim
// beyond what the role deserves. It would not be a claim then, and the tasks would have ended for nothing.
func TestRoleThatTakesBackDoesNotBorrow(t *testing.T) {
	for _, c := range []struct{ roles, waiting, starts string }{
		{"q0 q1=2", "q1:1x2 q1:1x1", ""},   // the GPU is free, but all that q1 deserves is claimed
		{"q0 q1=3", "q1:1x2 q1:1x1", "w1"}, // there is room for both
		{"q0 q1=2 q2", "q1:1x2 q1:1x1", ""},
	} {
		plan := newPeerCase(t, ReclaimDeserved, "2 1", c.roles, "q0:2@0", c.waiting).makePlan()
		var starts []string
		for _, a := range plan.Accept {
			for _, l := range a.Launches {
				starts = append(starts, l.Spec.Name)
			}
		}
		if got := strings.Join(starts, " "); got != c.starts || len(plan.Preempt) != 1 {
			t.Errorf("%s: %s starts, %d tasks end, want %q and 1", c.roles, got, len(plan.Preempt), c.starts)
		}
	}
}

// TestClaimsKeepCPUsOfTheirPlaces: tasks without GPUs do not use the free CPUs that a claim will need together with those of the
// tasks that end for it.
func TestClaimsKeepCPUsOfTheirPlaces(t *testing.T) {
	for waiting, starts := range map[string]int{"q1:1x1/3/1 q1:1x0/3/1": 0, "q1:1x1/3/1 q1:1x0/2/1": 1} {
		if plan := newPeerCase(t, ReclaimDeserved, "1/5/10", "q0 q1=1", "q0:1/1/1@0", waiting).makePlan(); len(plan.Accept) != starts || len(plan.Preempt) != 1 {
			t.Errorf("%s: %d agents get tasks, %d tasks end, want %d and 1", waiting, len(plan.Accept), len(plan.Preempt), starts)
		}
	}
}

package sched

import (
	"fmt"
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
)

// What counts as scarce is what the jobs that are remembered insist on: as
// they change, work for any type moves over.
func TestWorkloadShifts(t *testing.T) {
	p := testPolicy()
	w := workload{kinds: map[string]*fit.Typical{}}
	offers := bigCluster(2) // a V100 agent and a K80 agent
	where := func() string {
		s := testSpec("any")
		s.Request.GPUs, s.Tasks = 1, 1
		p.Fit.Typical = w.most()
		plan := Place(offers, Queue{Now: time.Unix(1, 0), Waiting: []Job{{Spec: &s, Tasks: []Waiting{{ID: "any.0"}}}}}, p)
		if len(plan.Accept) != 1 {
			t.Fatalf("%d offers are accepted, want 1", len(plan.Accept))
		}
		return plan.Accept[0].AgentID
	}
	insist := func(model string, sign int) {
		for i := range 10 {
			s := testSpec(fmt.Sprint(model, i))
			s.Request.GPUs, s.Request.Types.Include = 1, []string{model}
			w.add(&s, &p, sign)
		}
	}
	if got := where(); got != offers[0].AgentID {
		t.Errorf("with nothing remembered work goes to %s, want the first of equals", got)
	}
	insist("V100", 1)
	if got := where(); got != offers[1].AgentID {
		t.Errorf("when jobs insist on V100 work goes to %s, want the K80 agent", got)
	}
	insist("V100", -1)
	insist("K80", 1)
	if got := where(); got != offers[0].AgentID {
		t.Errorf("when jobs insist on K80 work goes to %s, want the V100 agent", got)
	}
}

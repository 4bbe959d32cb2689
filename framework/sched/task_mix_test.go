package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
)

// The remembered jobs decide which GPUs count as scarce. When these jobs change, a job for any type gets other
// agents.
func TestTaskMixFollowsJobs(t *testing.T) {
	p := testPolicy()
	w := taskMix{kinds: map[string]*fit.TypicalTask{}}
	offers := benchmarkOffers(2) // a V100 agent and a K80 agent
	where := func() string {
		s := testSpec("any")
		s.Request.GPUs, s.Tasks = 1, 1
		p.Fit.Typical = w.mostFrequent()
		plan := planOffers(offers, placement.PlanInput{Now: time.Unix(1, 0), Waiting: []queue.WaitingJob{{Spec: &s, Tasks: []queue.WaitingTask{{ID: "any.0"}}}}}, p)
		if len(plan.Accept) != 1 {
			t.Fatalf("%d offers are accepted, want 1", len(plan.Accept))
		}
		return plan.Accept[0].AgentID
	}
	insist := func(model string, sign int) {
		for i := range 10 {
			s := testSpec(fmt.Sprint(model, i))
			s.Request.GPUs, s.Request.Types.Include = 1, []string{model}
			w.addJob(&s, p.Overhead, sign)
		}
	}
	if got := where(); got != offers[0].AgentID {
		t.Errorf("without a task mix the job is placed on %s, want the first of equal agents", got)
	}
	insist("V100", 1)
	if got := where(); got != offers[1].AgentID {
		t.Errorf("with jobs that require V100 the job is placed on %s, want the K80 agent", got)
	}
	insist("V100", -1)
	insist("K80", 1)
	if got := where(); got != offers[0].AgentID {
		t.Errorf("with jobs that require K80 the job is placed on %s, want the V100 agent", got)
	}
}

// The typical tasks are the most frequent ones that together are 95 % of all, at most 128 kinds.
func TestTypicalTasksAreMostFrequent(t *testing.T) {
	for _, c := range []struct {
		tasks, want []int // of jobs with different CPUs
	}{
		{nil, nil},
		{[]int{95, 5}, []int{95}},
		{[]int{5, 94, 1}, []int{94, 5}},
		{[]int{3, 2, 1}, []int{3, 2, 1}},
		{slices.Repeat([]int{1}, 200), slices.Repeat([]int{1}, maxTypicalKinds)},
	} {
		w := taskMix{kinds: map[string]*fit.TypicalTask{}}
		for i, n := range c.tasks {
			s := testSpec(fmt.Sprint(i))
			s.CPUs, s.Tasks = float64(i+1), n
			w.addJob(&s, Amount{}, 1)
		}
		var got []int
		for _, k := range w.mostFrequent() {
			got = append(got, int(k.Weight))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %v tasks, the typical ones are %v, want %v", c.tasks, got, c.want)
		}
	}
}

package sched

import (
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/internal/testing/cputime"
	"mesos-gpu/internal/testing/testneeds"
)

// TestSpeedOfPlans fails if a plan takes twice the CPU time that it took when the ranges were measured.
func TestSpeedOfPlans(t *testing.T) {
	if !testneeds.IsLongRun() {
		t.Skip("make test-long compares CPU times")
	}
	plan := func(agents, jobs int) func() {
		offers, waiting, p := benchmarkOffers(agents), benchmarkQueue(jobs, false), testPolicy()
		p.Fit.Name = "headroom"
		w := taskMix{kinds: map[string]*fit.TypicalTask{}}
		for i := range waiting {
			w.addJob(waiting[i].Spec, p.Overhead, 1)
		}
		p.Fit.Typical = w.mostFrequent()
		return func() { planOffers(offers, placement.PlanInput{Now: time.Unix(1, 0), Waiting: waiting}, p) }
	}
	small, large := cputime.MeasureRatio(t, 5, plan(1000, 1000)), cputime.MeasureRatio(t, 5, plan(10_000, 10_000))
	cputime.CheckRanges(t,
		cputime.Figure{Name: "CPU time of a plan for 10,000 agents and jobs, divided by that of the reference", Got: large, Least: 0.3, Most: 1.2},
		cputime.Figure{Name: "CPU time of a job in it, divided by that in a plan for 1,000 agents and jobs", Got: large / 10 / small, Least: 0.6, Most: 2},
	)
}

package replay

import (
	"slices"
	"testing"
	"time"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
)

// TestWarnedTasksContinue checks what a preemption costs: all work, or the time to save and to load the state if the task is
// warned, and none before min_run_time. A job of 100 s has all GPUs when one of 10 s arrives after 40 s.
func TestWarnedTasksContinue(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  ReplaySettings
		// lost has GPU seconds, wait is that of the preemptor and span the end of the first job, in seconds.
		lost, wait, span float64
		preemptions      int
	}{
		{name: "starts over", lost: 8 * 40, span: 40 + 10 + 100, preemptions: 1},
		{name: "saves its state", cfg: ReplaySettings{SaveTime: 5 * time.Second}, lost: 8 * (5 + 5), wait: 5, span: 100 + 10 + 5 + 5, preemptions: 1},
		{name: "warned while the preemptor delays",
			cfg: ReplaySettings{SaveTime: 5 * time.Second, PreemptAfter: 8 * time.Second}, lost: 8 * (5 + 5), wait: 8,
			span: 100 + 10 + 5 + 5, preemptions: 1},
		{name: "a delay without warnings", cfg: ReplaySettings{PreemptAfter: 8 * time.Second}, lost: 8 * 48, wait: 8, span: 48 + 10 + 100, preemptions: 1},
		{name: "runs first", cfg: ReplaySettings{MinRunTime: 50 * time.Second}, lost: 8 * 50, wait: 10, span: 50 + 10 + 100, preemptions: 1},
		{name: "runs to its end", cfg: ReplaySettings{MinRunTime: 200 * time.Second}, wait: 60, span: 110},
	} {
		c.cfg.Agents, c.cfg.RunTimes, c.cfg.Short = agents(1), RunTimeExact, 10*time.Second
		c.cfg.Sched.Policy.Roles = []queue.Role{{}}
		r, err := RunReplay(c.cfg, slices.Values(makeRecords(t, [3]int{0, 100, 8}, [3]int{40, 10, 8})))
		if err != nil {
			t.Fatal(err)
		}
		const offers = 3 // seconds until free GPUs are offered
		if r.Preemptions != c.preemptions || r.Preemptors == nil || r.Preemptors.Jobs != 1 || r.Lost < c.lost || r.Lost > c.lost+8*offers {
			t.Errorf("%s: %d preemptions lost %g GPU seconds, want %d and %g; jobs that may preempt: %+v", c.name, r.Preemptions,
				r.Lost, c.preemptions, c.lost, r.Preemptors)
		}
		if w := r.Preemptors.Wait.Mean; w < c.wait || w > c.wait+offers || r.Span < c.span || r.Span > c.span+2*offers {
			t.Errorf("%s: the preemptor waits %g s, want %g; all ends after %g s, want %g", c.name, w, c.wait, r.Span, c.span)
		}
	}
}

// TestReclaimedTasksContinue checks what reclaimed GPUs cost their borrower: all work, or the time to save and to load the
// state. The borrower of all GPUs has run for 40 s when a job of 10 s arrives whose role deserves them.
func TestReclaimedTasksContinue(t *testing.T) {
	for _, c := range []struct {
		name string
		save time.Duration
		lost float64 // GPU seconds
	}{
		{"starts over", 0, 8 * 40},
		{"saves its state", 10 * time.Second, 8 * (10 + 10)},
	} {
		records := makeRecords(t, [3]int{0, 100, 8}, [3]int{40, 10, 8})
		records[0].Spec.Role, records[1].Spec.Role = "guests", "prod"
		cfg := ReplaySettings{Agents: agents(1), SaveTime: c.save}
		cfg.Sched.Policy.Roles = []queue.Role{{Name: "guests"}, {Name: "prod", Deserved: quota.Quota{quota.AllTypes: 8}}}
		r, err := RunReplay(cfg, slices.Values(records))
		if err != nil {
			t.Fatal(err)
		}
		const late = 8 // seconds until a new claim reclaims and the freed GPUs are offered
		if r.Preemptions != 1 || r.Lost < c.lost || r.Lost > c.lost+8*late {
			t.Errorf("%s: %d preemptions lost %g GPU seconds, want 1 and %g", c.name, r.Preemptions, r.Lost, c.lost)
		}
		if w := r.Roles["prod"].Wait.Mean; w < c.save.Seconds() || w > c.save.Seconds()+late {
			t.Errorf("%s: the claim waits %g s", c.name, w)
		}
	}
}

package autoscale

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/job"
)

var start = time.Unix(1_700_000_000, 0)

// queuePolicy keeps 10 queued requests a task, with 1 to 8 tasks.
func queuePolicy() *job.AutoscalingPolicy {
	return &job.AutoscalingPolicy{
		Min: 1, Max: 8, Target: job.LoadTarget{Metric: "queue_length", Value: 10}, Cooldown: time.Minute,
		Stabilization: job.StabilizationWindows{Down: 5 * time.Minute},
	}
}

func equalLoads(n int, load float64) []float64 { return slices.Repeat([]float64{load}, n) }

func TestDecide(t *testing.T) {
	long := []Recommendation{{start.Add(-time.Hour), 8}}
	for name, c := range map[string]struct {
		o       Observation
		past    []Recommendation
		changed time.Duration // before start; 0: never
		policy  func(*job.AutoscalingPolicy)
		want    int
		reason  []string
	}{
		"at the target":         {o: Observation{Wanted: 3, Loads: equalLoads(3, 10)}, want: 3, reason: []string{"queue_length 10 a task, target 10"}},
		"within the tolerance":  {o: Observation{Wanted: 3, Loads: equalLoads(3, 10.9)}, want: 3},
		"more load":             {o: Observation{Wanted: 3, Loads: equalLoads(3, 15)}, want: 5, reason: []string{"queue_length 15 a task, target 10"}},
		"unequal loads":         {o: Observation{Wanted: 3, Loads: []float64{0, 0, 45}}, want: 5},
		"max":                   {o: Observation{Wanted: 3, Loads: equalLoads(3, 400)}, want: 7, reason: []string{"400"}},
		"at max":                {o: Observation{Wanted: 8, Loads: equalLoads(8, 20)}, want: 8, reason: []string{"max is 8"}},
		"less load":             {o: Observation{Wanted: 6, Loads: equalLoads(6, 4)}, past: long, want: 3},
		"less load, new leader": {o: Observation{Wanted: 6, Loads: equalLoads(6, 4)}, want: 6, reason: []string{"3 tasks recommended", "down 5m0s"}},
		"no load":               {o: Observation{Wanted: 6, Loads: equalLoads(6, 0)}, past: long, want: 1},
		"in the window": {o: Observation{Wanted: 6, Loads: equalLoads(6, 0)},
			past: append(long, Recommendation{start.Add(-time.Minute), 4}), want: 4, reason: []string{"1 task recommended"}},
		"upward window": {o: Observation{Wanted: 2, Loads: equalLoads(2, 20)},
			past:   []Recommendation{{start.Add(-time.Second), 3}},
			policy: func(p *job.AutoscalingPolicy) { p.Stabilization.Up = time.Minute }, want: 3},
		"cooldown": {o: Observation{Wanted: 3, Loads: equalLoads(3, 15)}, changed: 20 * time.Second, want: 3,
			reason: []string{"5 tasks after the cooldown, in 40s"}},
		"after the cooldown": {o: Observation{Wanted: 3, Loads: equalLoads(3, 15)}, changed: time.Minute, want: 5},
		"tasks wait": {o: Observation{Wanted: 3, Waiting: 1, Loads: equalLoads(2, 40), Problem: "1 task not ready"},
			want: 3, reason: []string{"no more tasks while 1 of 3 wait", "2 of 3 tasks measured: 1 task not ready"}},
		"tasks wait, less load": {o: Observation{Wanted: 6, Waiting: 4, Loads: equalLoads(2, 0)}, past: long, want: 4},
		"missing, more load":    {o: Observation{Wanted: 4, Loads: equalLoads(2, 18)}, want: 4},
		"missing, much load":    {o: Observation{Wanted: 4, Loads: equalLoads(2, 40)}, want: 8},
		"none measured": {o: Observation{Wanted: 4, Problem: "task 0: connection refused"}, want: 4,
			reason: []string{"no task was measured: task 0: connection refused"}},
		"scaled to 0 by a user": {o: Observation{Wanted: 0}, want: 0, reason: []string{"a user has scaled"}},
		"above max by a user": {o: Observation{Wanted: 20, Loads: equalLoads(20, 10)}, changed: time.Second, want: 8,
			reason: []string{"20 tasks is not between min 1 and max 8"}},
		"below min": {o: Observation{Wanted: 1, Waiting: 1}, policy: func(p *job.AutoscalingPolicy) { p.Min = 2 }, want: 2},
		"GPU utilization": {o: Observation{Wanted: 2, Loads: []float64{95, 93}},
			policy: func(p *job.AutoscalingPolicy) { p.Target = job.LoadTarget{GPUDuty: 60} }, want: 4,
			reason: []string{"gpu_duty 94 % a task, target 60 %"}},
		"a rounding error is no task": {o: Observation{Wanted: 3, Loads: equalLoads(3, 0.1+0.2)}, past: long,
			policy: func(p *job.AutoscalingPolicy) { p.Target.Value = 0.9 }, want: 1},
	} {
		p := queuePolicy()
		if c.policy != nil {
			c.policy(p)
		}
		changed := time.Time{}
		if c.changed > 0 {
			changed = start.Add(-c.changed)
		}
		d, _ := Decide(p, c.o, c.past, changed, start)
		if d.Tasks != c.want {
			t.Errorf("%s: %d tasks, want %d: %s", name, d.Tasks, c.want, d.Reason)
		}
		for _, want := range c.reason {
			if !strings.Contains(d.Reason, want) {
				t.Errorf("%s: reason %q lacks %q", name, d.Reason, want)
			}
		}
	}
}

// drawPolicy draws a valid policy.
func drawPolicy(t *rapid.T) *job.AutoscalingPolicy {
	p := &job.AutoscalingPolicy{
		Min:    rapid.IntRange(1, 5).Draw(t, "min"),
		Target: job.LoadTarget{Metric: "m", Value: rapid.Float64Range(0.1, 100).Draw(t, "target")},
	}
	p.Max = p.Min + rapid.IntRange(0, 30).Draw(t, "span")
	p.Cooldown = time.Duration(rapid.IntRange(0, 120).Draw(t, "cooldown")) * time.Second
	p.Stabilization.Up = time.Duration(rapid.IntRange(0, 120).Draw(t, "up")) * time.Second
	p.Stabilization.Down = time.Duration(rapid.IntRange(0, 300).Draw(t, "down")) * time.Second
	return p
}

func drawObservation(t *rapid.T, wanted int) Observation {
	waiting := rapid.IntRange(0, wanted).Draw(t, "waiting")
	measured := rapid.IntRange(0, wanted-waiting).Draw(t, "measured")
	o := Observation{Wanted: wanted, Waiting: waiting}
	for range measured {
		o.Loads = append(o.Loads, rapid.Float64Range(0, 500).Draw(t, "load"))
	}
	return o
}

// However the load changes: the number of tasks stays within the bounds, it changes at most
// once in a cooldown unless a user has left the bounds, tasks that wait prevent growth, and
// it does not fall below what the downward window requires nor grow above the upward one.
func TestDecideInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		now, wanted := start, rapid.IntRange(p.Min, p.Max).Draw(t, "wanted")
		var past, all []Recommendation
		changed := time.Time{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "pass")) * time.Second)
			byUser := rapid.IntRange(0, 9).Draw(t, "user") == 0
			if byUser {
				wanted, changed = rapid.IntRange(0, p.Max+3).Draw(t, "byUser"), now
			}
			o := drawObservation(t, wanted)
			before := slices.Clone(past)
			d, next := Decide(p, o, past, changed, now)
			if !slices.Equal(past, before) {
				t.Fatal("the recommendations of the caller were changed")
			}
			past = next
			if len(o.Loads) > 0 && wanted >= p.Min && wanted <= p.Max {
				all = append(all, Recommendation{now, d.Recommended})
			}
			switch {
			case d.Reason == "":
				t.Fatal("no reason")
			case wanted == 0:
				if d.Tasks != 0 {
					t.Fatalf("a service without tasks gets %d", d.Tasks)
				}
				continue
			case d.Tasks < p.Min || d.Tasks > p.Max || d.Recommended < p.Min || d.Recommended > p.Max:
				t.Fatalf("%d tasks, recommended %d, not in %d to %d", d.Tasks, d.Recommended, p.Min, p.Max)
			case wanted < p.Min || wanted > p.Max:
				wanted, changed = d.Tasks, now
				continue
			case d.Tasks != wanted && !changed.IsZero() && now.Sub(changed) < p.Cooldown:
				t.Fatalf("changed from %d to %d, %s after the last change", wanted, d.Tasks, now.Sub(changed))
			case d.Tasks > wanted && o.Waiting > 0:
				t.Fatalf("grows to %d while %d wait", d.Tasks, o.Waiting)
			case len(o.Loads) == 0 && d.Tasks != wanted:
				t.Fatalf("changed to %d without a measurement", d.Tasks)
			}
			for _, r := range all {
				if d.Tasks < wanted && now.Sub(r.Time) < p.Stabilization.Down && d.Tasks < min(r.Tasks, wanted) {
					t.Fatalf("shrinks to %d, %s after %d were recommended", d.Tasks, now.Sub(r.Time), r.Tasks)
				}
				if d.Tasks > wanted && now.Sub(r.Time) < p.Stabilization.Up && d.Tasks > max(r.Tasks, wanted) {
					t.Fatalf("grows to %d, %s after %d were recommended", d.Tasks, now.Sub(r.Time), r.Tasks)
				}
			}
			if d.Tasks != wanted {
				wanted, changed = d.Tasks, now
			}
		}
	})
}

// More load never recommends fewer tasks, and a task without a measurement never makes a
// change larger or turns it round.
func TestRecommendationFollowsLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		wanted := rapid.IntRange(p.Min, p.Max).Draw(t, "wanted")
		measured := rapid.IntRange(1, wanted).Draw(t, "measured")
		sum := rapid.Float64Range(0, 1e4).Draw(t, "sum")
		n := recommend(p, wanted, measured, sum)
		if more := recommend(p, wanted, measured, sum+rapid.Float64Range(0, 1e4).Draw(t, "more")); more < n {
			t.Fatalf("more load: %d tasks instead of %d", more, n)
		}
		all := recommend(p, wanted, wanted, sum/float64(measured)*float64(wanted)) // the others have the same load
		if all >= wanted && (n < wanted || n > all) || all <= wanted && (n > wanted || n < all) {
			t.Fatalf("with %d of %d measured: %d tasks, if all had that load: %d", measured, wanted, n, all)
		}
	})
}

// A constant total load, shared by all tasks, leads to a number of tasks that no longer
// changes and at which the load is near the target, unless a bound prevents it.
func TestConstantLoadConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		total := rapid.Float64Range(0, float64(p.Max)*p.Target.Value*1.5).Draw(t, "total")
		wanted, now := rapid.IntRange(p.Min, p.Max).Draw(t, "wanted"), start
		var past []Recommendation
		changed, last := time.Time{}, 0
		for step := range 400 {
			now = now.Add(15 * time.Second)
			var d Decision
			d, past = Decide(p, Observation{Wanted: wanted, Loads: equalLoads(wanted, total/float64(wanted))}, past, changed, now)
			if d.Tasks != wanted {
				wanted, changed, last = d.Tasks, now, step
			}
		}
		if last > 200 {
			t.Fatalf("still changes at step %d", last)
		}
		load := total / float64(wanted) / p.Target.Value
		if load > 1+tolerance+1e-6 && wanted < p.Max {
			t.Fatalf("%d tasks have %g of the target", wanted, load)
		}
		if needed := int(math.Ceil(total / p.Target.Value)); wanted > max(p.Min, needed) && load < 1-tolerance-1e-6 {
			t.Fatalf("%d tasks have %g of the target, %d would be enough", wanted, load, needed)
		}
	})
}

func ExampleDecide() {
	p := &job.AutoscalingPolicy{Min: 1, Max: 4, Target: job.LoadTarget{Metric: "queue_length", Value: 10}}
	d, _ := Decide(p, Observation{Wanted: 2, Loads: []float64{12, 18}}, nil, time.Time{}, time.Unix(0, 0))
	fmt.Println(d.Tasks, d.Reason)
	// Output: 3 queue_length 15 a task, target 10
}

// Package autoscale changes the number of a service's tasks with their load. Decide is
// pure: it applies the formula of Kubernetes's HorizontalPodAutoscaler, with tolerance,
// bounds, stabilization windows and a cooldown. Package loads measures the load; the leader
// applies the decisions.
package autoscale

import (
	"fmt"
	"math"
	"strings"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	// tolerance is the relative difference between load and target below which nothing
	// changes, as in Kubernetes.
	tolerance = 0.1
	// minGrowth is the number of tasks that one change may add to a service of few tasks;
	// others at most double.
	minGrowth = 4
)

// Observation is the load of a service at one time.
type Observation struct {
	// Wanted is the number of tasks that the service wants. Waiting of them wait for a
	// place.
	Wanted, Waiting int
	// Loads are the loads of the tasks that were measured, at most Wanted.
	Loads []float64
	// Problem says why tasks were not measured, "" if all were.
	Problem string
}

// Recommendation is the number of tasks that the load required at a time.
type Recommendation struct {
	Time  time.Time
	Tasks int
}

// Decision is the number of tasks that a service should have.
type Decision struct {
	Tasks int
	// Load is the average load of the measured tasks, Measured their number.
	Load     float64
	Measured int
	// Recommended is the number that the load requires now, before stabilization, cooldown
	// and waiting tasks; it is within the bounds.
	Recommended int
	// Reason has the load and the target, and why Tasks differs from Recommended.
	Reason string
}

// Decide returns the decision for a service at a time. past are the recommendations so far,
// oldest first; the second result replaces them. changed is when the number of tasks changed
// last, zero if it never did.
func Decide(p *job.AutoscalingPolicy, o Observation, past []Recommendation, changed, now time.Time) (Decision, []Recommendation) {
	d := Decision{Tasks: o.Wanted, Recommended: o.Wanted, Measured: len(o.Loads)}
	switch {
	case o.Wanted == 0:
		d.Reason = "a user has scaled the service to 0 tasks: it is not scaled by load"
		return d, nil
	case o.Wanted < p.Min || o.Wanted > p.Max:
		d.Tasks = min(max(o.Wanted, p.Min), p.Max)
		d.Recommended = d.Tasks
		d.Reason = fmt.Sprintf("%d %s is not between min %d and max %d", o.Wanted, gpu.Plural(o.Wanted, "task"), p.Min, p.Max)
		return d, nil
	case len(o.Loads) == 0:
		d.Reason = "no task was measured"
		if o.Problem != "" {
			d.Reason += ": " + o.Problem
		}
		return d, past
	}
	sum := 0.0
	for _, v := range o.Loads {
		sum += v
	}
	d.Load = sum / float64(len(o.Loads))
	d.Recommended = recommend(p, o.Wanted, len(o.Loads), sum)
	if len(past) == 0 { // a new leader does not shrink a service before it has seen its load for a while
		past = []Recommendation{{Time: now, Tasks: o.Wanted}}
	}
	past = append(dropOutdated(past, now.Add(-max(p.Stabilization.Up, p.Stabilization.Down))), Recommendation{Time: now, Tasks: d.Recommended})
	d.Tasks = stabilize(p, o.Wanted, d.Recommended, past, now)

	reason := []string{describeLoad(p, o, d.Load)}
	if d.Recommended != d.Tasks {
		reason = append(reason, fmt.Sprintf("%d %s recommended, stabilization %s", d.Recommended,
			gpu.Plural(d.Recommended, "task"), describeWindow(p, d.Recommended > o.Wanted)))
	}
	switch wait := changed.Add(p.Cooldown).Sub(now); {
	case d.Tasks == o.Wanted:
	case !changed.IsZero() && wait > 0:
		reason = append(reason, fmt.Sprintf("%d %s after the cooldown, in %s", d.Tasks, gpu.Plural(d.Tasks, "task"), wait.Round(time.Second)))
		d.Tasks = o.Wanted
	case d.Tasks > o.Wanted && o.Waiting > 0:
		reason = append(reason, fmt.Sprintf("no more tasks while %d of %d wait for a place", o.Waiting, o.Wanted))
		d.Tasks = o.Wanted
	}
	if d.Tasks == p.Max && d.Load > p.Target.Wanted()*(1+tolerance) {
		reason = append(reason, fmt.Sprintf("max is %d", p.Max))
	}
	if o.Problem != "" {
		reason = append(reason, fmt.Sprintf("%d of %d tasks measured: %s", len(o.Loads), o.Wanted, o.Problem))
	}
	d.Reason = strings.Join(reason, "; ")
	return d, past
}

// recommend returns the number of tasks, within the bounds, at which the average load is the
// target. Tasks that were not measured count as loaded to the target if the others have less,
// and as idle if they have more, so that missing values make each change smaller.
func recommend(p *job.AutoscalingPolicy, wanted, measured int, sum float64) int {
	target := p.Target.Wanted()
	ratio := sum / (target * float64(measured))
	if missing := float64(wanted - measured); missing > 0 {
		assumed := sum / (target * float64(wanted))
		if ratio < 1 {
			assumed = (sum + missing*target) / (target * float64(wanted))
		}
		if (assumed > 1) != (ratio > 1) {
			assumed = 1
		}
		ratio = assumed
	}
	if math.Abs(ratio-1) <= tolerance {
		return wanted
	}
	// A rounding error must not add a task.
	required := math.Ceil(ratio*float64(wanted) - 1e-9)
	limit := min(p.Max, max(2*wanted, wanted+minGrowth))
	return int(min(max(required, float64(p.Min)), float64(limit)))
}

// stabilize returns the recommendation that holds in the windows: growth to the smallest
// number of the upward window, and decline to the largest of the downward one.
func stabilize(p *job.AutoscalingPolicy, wanted, recommended int, past []Recommendation, now time.Time) int {
	up, down := recommended, recommended
	for _, r := range past {
		if age := now.Sub(r.Time); age < p.Stabilization.Up {
			up = min(up, r.Tasks)
		}
		if age := now.Sub(r.Time); age < p.Stabilization.Down {
			down = max(down, r.Tasks)
		}
	}
	switch {
	case recommended > wanted:
		return max(up, wanted)
	case recommended < wanted:
		return min(down, wanted)
	}
	return wanted
}

// dropOutdated returns a new list without the recommendations before a time.
func dropOutdated(past []Recommendation, before time.Time) []Recommendation {
	kept := make([]Recommendation, 0, len(past)+1)
	for _, r := range past {
		if r.Time.After(before) {
			kept = append(kept, r)
		}
	}
	return kept
}

// describeLoad returns a text such as "requests_per_second 120 a task, target 50".
func describeLoad(p *job.AutoscalingPolicy, o Observation, load float64) string {
	unit := ""
	if p.Target.GPUDuty > 0 {
		unit = " %"
	}
	return fmt.Sprintf("%s %s%s a task, target %s%s", p.Target.Name(), formatLoad(load), unit, formatLoad(p.Target.Wanted()), unit)
}

// formatLoad formats a number with at most three significant digits after those of its whole
// part.
func formatLoad(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func describeWindow(p *job.AutoscalingPolicy, up bool) string {
	if up {
		return fmt.Sprintf("up %s", p.Stabilization.Up)
	}
	return fmt.Sprintf("down %s", p.Stabilization.Down)
}

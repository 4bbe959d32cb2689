package placement

import (
	"slices"

	"mesos-gpu/framework/sched/eviction"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
)

// selectVictims returns preemptible tasks of the job's role with a lower priority that must end so that n tasks of the
// job fit, given that the ending tasks end too. It returns nil if no choice makes enough room, or if it is too early for
// the job's PreemptAfter: within that time the victims are only warned.
func (f *forecaster) selectVictims(base *PartitionedCluster, j *queue.WaitingJob, d *fit.Demand, n int, ending []taskEnd) []queue.RunningTask {
	units := f.preemptibleUnits(j)
	if len(units) == 0 {
		return nil
	}
	forecast := f.newForecast(base, d)
	forecast.releaseAllLeftovers(d.Role)
	for i := range ending {
		forecast.completeTask(&ending[i])
	}
	selector := eviction.Selector{Cluster: forecast.partition(d.Role), Role: d.Role, Overhead: f.overhead, Units: units}
	chosen := selector.Choose(&eviction.Claim{
		Demand: d, Tasks: n, Missing: n - selector.Count(d, n, nil), Gang: true,
		Rules: []func(*eviction.Unit) bool{func(*eviction.Unit) bool { return true }},
	})
	var victims []queue.RunningTask
	for _, u := range chosen {
		for _, t := range u.End(f.in.Now) {
			if eviction.IsTooEarly(j, t.Spec, f.in.Now) {
				return nil
			}
			victims = append(victims, *t)
		}
	}
	return victims
}

// preemptibleUnits returns copies of the tasks that the job may preempt, nil if it is too early for all of them.
func (f *forecaster) preemptibleUnits(j *queue.WaitingJob) []eviction.Unit {
	own := slices.DeleteFunc(slices.Clone(f.in.Running), func(r queue.RunningTask) bool { return r.Spec.Role != j.Spec.Role })
	if !slices.ContainsFunc(own, func(r queue.RunningTask) bool {
		return IsPreemptible(&r, j.Priority()) && eviction.HasRunEnough(&r, f.in.Now) && !eviction.IsTooEarly(j, r.Spec, f.in.Now)
	}) {
		return nil
	}
	mayEnd := func(r *queue.RunningTask) bool {
		return IsPreemptible(r, j.Priority()) && eviction.HasRunEnough(r, f.in.Now)
	}
	return eviction.CollectUnits(own, f.in.Now, mayEnd, func(string) bool { return false })
}

// IsPreemptible reports whether a job of its role with a priority, as of WaitingJob.Priority, may preempt a task once that has
// run enough.
func IsPreemptible(r *queue.RunningTask, priority int) bool {
	return !r.Ending && !r.Stuck && (r.Spec.Preemptible || r.Lowered) && r.Priority() < priority
}

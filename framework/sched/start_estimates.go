package sched

import (
	"cmp"
	"math"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/forecast"
	"mesos-gpu/framework/sched/prediction"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// ForecastInput returns what estimates of the starts of waiting jobs are computed from. more are jobs that are not
// submitted: they are placed as if they were submitted now. It returns false without predictions of run times, or
// without a connection to a master.
func (s *State) ForecastInput(more ...*job.Spec) (in forecast.Input, ok bool) {
	if s.runTimes == nil || !s.connected {
		return in, false
	}
	placed := s.newPlacementInput()
	usage := s.newUsage(placed.Running, placed.Waiting)
	f := s.newForecastAgents(&placed)
	for i := range f.free {
		in.Agents = append(in.Agents, forecast.Agent{Host: cordonHost(f.free[i].Hostname, f.free[i].ID), Free: freeResources(&f.free[i])})
	}
	for i := range placed.Running {
		r := &placed.Running[i]
		if at, known := f.index[r.AgentID]; known {
			in.Running = append(in.Running, s.newForecastTask(r, at, usage.MilliPerTask(&r.Spec.Request, quota.AllTypes)))
		}
	}
	for _, spec := range more {
		if len(spec.UnmetDependencies()) > 0 {
			continue // it waits for other jobs
		}
		w := queue.WaitingJob{Spec: spec, Submitted: s.now, Tasks: make([]queue.WaitingTask, spec.Tasks), PredictedRunTime: s.runTimes.predictSpec(spec).RunTime}
		placed.Waiting = append(placed.Waiting, w)
	}
	in.RoleRoom, in.StrictRoles, in.Calibration = map[string]int{}, map[string]bool{}, s.runTimes.calibration.Clone()
	for _, r := range s.cfg.Policy.Roles {
		in.StrictRoles[r.Name] = r.Strict
	}
	order := queue.NewJobOrder(s.now, placed.Waiting, s.cfg.Policy.Roles, usage)
	for j, ok := order.Next(); ok; j, ok = order.Next() {
		if usage.IsBlockedByUser(j.Spec) || usage.IsBlockedByBudget(quota.UserOf(j.Spec), j.Spec.Request) {
			continue // it waits for the user's own jobs or for the next month, whatever becomes free
		}
		if w, ok := s.newForecastJob(f, j, usage); ok {
			in.Waiting = append(in.Waiting, w)
			s.limitRoom(&in, j, w.Milli, usage)
			usage.AddMilliGPUs(j.Spec.Role, "", len(j.Tasks)*w.Milli)
			usage.AddUserMilliGPUs(j.Spec, "", len(j.Tasks)*w.Milli)
			usage.AddRunningJob(j.Spec)
		}
	}
	return in, true
}

// freeResources returns what an agent has free.
func freeResources(a *fit.AgentResources) forecast.Resources {
	r := forecast.Resources{
		forecast.WholeGPUs: int64(quota.MilliPerGPU * max(a.GPUs, len(a.DeviceIDs))),
		forecast.CPUs:      int64(math.Round(a.Free.CPUs * 1000)),
		forecast.Memory:    int64(math.Round(a.Free.MemMiB * 1000)),
	}
	for _, d := range a.Shared {
		for _, all := range a.AllShared {
			if all.UUID == d.UUID && all.MemMiB > 0 {
				r[forecast.SharedGPUs] += quota.MilliPerGPU * d.MemMiB / all.MemMiB
			}
		}
	}
	return r
}

func (s *State) newForecastTask(r *queue.RunningTask, agent, milli int) forecast.OccupyingTask {
	holds := r.Resources(s.cfg.Policy.Overhead)
	t := forecast.OccupyingTask{
		Agent:   agent,
		Role:    r.Spec.Role,
		Milli:   milli,
		Ran:     s.now.Sub(r.Since),
		Endless: r.Spec.Service != nil || r.Stuck,
		Holds: forecast.Resources{
			forecast.WholeGPUs: int64(quota.MilliPerGPU * max(holds.GPUs, len(holds.DeviceIDs))),
			forecast.CPUs:      int64(math.Round(holds.Amount.CPUs * 1000)),
			forecast.Memory:    int64(math.Round(holds.Amount.MemMiB * 1000)),
		},
	}
	for _, d := range holds.Shares {
		t.Holds[forecast.SharedGPUs] += int64(d.MilliDevices)
	}
	switch ref, known := s.tasks[r.TaskID]; {
	case r.Ended:
		t.Milli, t.EndsIn = 0, time.Second // its resources are about to be offered, and count against no quota
	case r.Ending:
		t.EndsIn = max(r.Ends.Sub(s.now), time.Second)
	case known:
		t.RunTime = s.runTimes.distributionOf(ref.job)
	}
	return t
}

// newForecastJob returns a waiting job, or false for one that cannot start on the present agents.
func (s *State) newForecastJob(f *forecastAgents, j *queue.WaitingJob, usage *quota.Tracker) (w forecast.WaitingJob, ok bool) {
	if len(j.Tasks) == 0 {
		return w, false
	}
	known, _ := s.jobs.FindRun(j.RunID())
	submitted := j.Run > 0
	if f.isComplete {
		if _, infeasible := s.explainInfeasible(f.totals, j, len(j.Tasks)); infeasible {
			return w, false
		}
	}
	d := j.TaskDemand(s.cfg.Policy.Overhead, f.free)
	milli := usage.MilliPerTask(&j.Spec.Request, quota.AllTypes)
	w = forecast.WaitingJob{
		Run:       j.RunID(),
		Role:      j.Spec.Role,
		Tasks:     len(j.Tasks),
		Gang:      j.Spec.Gang,
		Milli:     milli,
		Accepts:   f.accepting(&d),
		DemandKey: d.Key(),
		Endless:   j.Spec.Service != nil,
		Announced: j.ExpectedRunTime(),
		HasPlace:  f.hasPlace(&d, j),
		Needs: forecast.Resources{
			forecast.CPUs:   int64(math.Round(d.Amount.CPUs * 1000)),
			forecast.Memory: int64(math.Round(d.Amount.MemMiB * 1000)),
		},
	}
	if j.Spec.Request.Share.IsWhole() {
		w.Needs[forecast.WholeGPUs] = int64(milli)
	} else {
		w.Needs[forecast.SharedGPUs] = int64(milli)
	}
	w.PerAgent, w.NeedsMore = limitPerAgent(j.Spec)
	w.NeedsMore = w.NeedsMore || f.needsMore(&d)
	if !submitted {
		w.RunTime = s.runTimes.predictSpec(j.Spec)
		return w, true
	}
	w.RunTime = s.runTimes.distributionOf(known)
	_, w.IsHeldBack = s.reservationReasons[j.RunID()]
	if r := s.reservations[j.Spec.Role]; r.Run == j.RunID() {
		w.StartsBy = r.StartsBy.Sub(s.now)
	}
	return w, true
}

// limitRoom records how much more the job's role may hold, if a quota limits it now.
func (s *State) limitRoom(in *forecast.Input, j *queue.WaitingJob, milli int, usage *quota.Tracker) {
	if _, known := in.RoleRoom[j.Spec.Role]; known {
		return
	}
	if _, n, limit := usage.Restrict(quota.User{Role: j.Spec.Role}, j.Spec.Request); limit != nil && n < len(j.Tasks) {
		already := 0 // what jobs before this one were given
		for i := range in.Waiting[:len(in.Waiting)-1] {
			if w := &in.Waiting[i]; w.Role == j.Spec.Role {
				already += w.Tasks * w.Milli
			}
		}
		in.RoleRoom[j.Spec.Role] = already + n*milli
	}
}

// distributionOf returns the run times that tasks of a job may have: those of similar tasks, or else what it declares.
func (r *runTimes) distributionOf(j *job.Job) prediction.Prediction {
	if p, ok := r.predictJob(j); ok {
		return p
	}
	return prediction.Exact(cmp.Or(j.Spec.ExpectedRunTime(), prediction.DefaultRunTime))
}

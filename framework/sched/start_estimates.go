package sched

import (
	"cmp"
	"fmt"
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
	index, offered := s.addForecastAgents(&in)
	held := make([]int, len(in.Agents))
	for i := range placed.Running {
		r := &placed.Running[i]
		at, known := index[r.AgentID]
		milli := usage.MilliPerTask(&r.Spec.Request, quota.AllTypes)
		if !known || milli == 0 || r.Ended {
			continue
		}
		held[at] += milli
		in.Running = append(in.Running, s.newForecastTask(r, at, milli))
	}
	for i := range in.Agents {
		if a := &in.Agents[i]; a.Free > 0 {
			a.Free = max(a.Free-held[i], 0)
		} else {
			a.Free = offered[i]
		}
	}
	for _, spec := range more {
		w := queue.WaitingJob{Spec: spec, Submitted: s.now, Tasks: make([]queue.WaitingTask, spec.Tasks), PredictedRunTime: s.runTimes.predictSpec(spec).RunTime}
		placed.Waiting = append(placed.Waiting, w)
	}
	in.RoleRoom, in.Calibration = map[string]int{}, s.runTimes.calibration.Clone()
	order := queue.NewJobOrder(s.now, placed.Waiting, s.cfg.Policy.Roles, usage)
	for j, ok := order.Next(); ok; j, ok = order.Next() {
		if usage.IsBlockedByUser(j.Spec) {
			continue // it waits for the user's own jobs, whatever becomes free
		}
		if w, ok := s.newForecastJob(j, usage); ok {
			in.Waiting = append(in.Waiting, w)
			s.limitRoom(&in, j, w.Milli, usage)
			usage.AddMilliGPUs(j.Spec.Role, "", len(j.Tasks)*w.Milli)
			usage.AddUserMilliGPUs(j.Spec, "", len(j.Tasks)*w.Milli)
			usage.AddRunningJob(j.Spec)
		}
	}
	return in, true
}

// addForecastAgents adds the agents that accept tasks, with all known GPUs free. It returns
// their indexes by id, and what they have free according to their last offers, for those whose GPUs are not known.
func (s *State) addForecastAgents(in *forecast.Input) (index map[string]int, offered []int) {
	index = map[string]int{}
	all := append(fit.CollectAgents(s.offers.heldOffers()), s.agentsWithLeftovers()...)
	for i := range all {
		a := &all[i]
		if s.isClosed(a.Hostname, a.ID) {
			continue
		}
		free := quota.MilliPerGPU * max(a.GPUs, len(a.DeviceIDs))
		at, known := index[a.ID]
		if !known {
			at = len(in.Agents)
			index[a.ID] = at
			in.Agents = append(in.Agents, forecast.Agent{ID: a.ID, GPUType: firstModel(a)})
			offered = append(offered, 0)
		}
		offered[at] = max(offered[at], free)
		in.Agents[at].HasShared = in.Agents[at].HasShared || len(a.Shared)+len(a.AllShared) > 0
		in.Agents[at].Free = max(in.Agents[at].Free, quota.MilliPerGPU*max(a.TotalGPUs, len(a.Inventory), len(a.AllShared)))
	}
	return index, offered
}

// firstModel returns the type of an agent's GPUs; an agent with several types counts for the first.
func firstModel(a *fit.AgentResources) string {
	for model := range a.Models() {
		return model
	}
	return ""
}

func (s *State) newForecastTask(r *queue.RunningTask, agent, milli int) forecast.OccupyingTask {
	t := forecast.OccupyingTask{Agent: agent, Role: r.Spec.Role, Milli: milli, Ran: s.now.Sub(r.Since), Endless: r.Spec.Service != nil || r.Stuck}
	switch ref, known := s.tasks[r.TaskID]; {
	case r.Ending:
		t.EndsIn = max(r.Ends.Sub(s.now), time.Second)
	case known:
		t.RunTime = s.runTimes.distributionOf(ref.job)
	}
	return t
}

func (s *State) newForecastJob(j *queue.WaitingJob, usage *quota.Tracker) (w forecast.WaitingJob, ok bool) {
	milli := usage.MilliPerTask(&j.Spec.Request, quota.AllTypes)
	if milli == 0 || len(j.Tasks) == 0 {
		return w, false
	}
	w = forecast.WaitingJob{
		Name: j.Spec.Name, Role: j.Spec.Role, Tasks: len(j.Tasks), Milli: milli, Gang: j.Spec.Gang, Endless: j.Spec.Service != nil,
		AcceptsType: j.Spec.Request.Types.Match, TypesKey: fmt.Sprint(j.Spec.Request.Types),
		NeedsShared: !j.Spec.Request.Share.IsWhole(),
	}
	if known := s.jobs.Newest[j.Spec.Name]; known != nil && known.Spec == j.Spec {
		w.RunTime = s.runTimes.distributionOf(known)
	} else {
		w.RunTime = s.runTimes.predictSpec(j.Spec)
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

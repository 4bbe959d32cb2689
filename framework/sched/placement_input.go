package sched

import (
	"slices"

	"mesos-gpu/framework/sched/eviction"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// newPlacementInput returns what waits and what runs, without agents.
func (s *State) newPlacementInput() placement.PlanInput {
	return s.fillPlacementInput(&inputBuffers{})
}

// fillPlacementInput is newPlacementInput in the memory of a cache. The result is valid until the next call with it.
func (s *State) fillPlacementInput(memory *inputBuffers) placement.PlanInput {
	in := placement.PlanInput{
		Now: s.now, Recent: s.RecentUsage(), MesosQuotas: s.mesosQuotas, UsedUpBudgets: s.budgets.usedUp, FutileReturns: s.futileReturns(),
		Waiting: memory.waiting[:0], Running: memory.running[:0],
	}
	var groups map[queue.GroupKey][]string
	tasks, list := memory.tasks[:0], s.queueCache.queuedJobs(&s.jobTable)
	for i := range list {
		j := list[i].Job
		if j.Spec.Group != "" && groups == nil {
			groups = s.agentsByGroup()
		}
		var w queue.WaitingJob
		if w, tasks = s.appendReadyTasks(j, groups, tasks); len(w.Tasks) > 0 {
			w.Lowered = s.budgets.isLowered(j.Spec, nil)
			w.DemandNumber = s.queueCache.demandNumberOf(&list[i], s.cfg.Policy.Overhead)
			w.PredictedRunTime = s.queueCache.predictedRunTimeOf(&list[i], s.runTimes)
			in.Waiting = append(in.Waiting, w)
		}
		for t := range j.Tasks {
			if j.Tasks[t].State.IsPlaced() {
				in.Running = append(in.Running, s.forecastTask(taskRef{j, t}))
			}
		}
	}
	s.markAwaitingOffers(in.Waiting, in.Running)
	in.Running = s.appendFreedPlaces(in.Running)
	in.DemandNumbers, in.Reservations = s.queueCache.numbers, s.reservations
	memory.waiting, memory.running, memory.tasks = in.Waiting, in.Running, tasks
	return in
}

// appendReadyTasks appends the tasks of a job that may be placed now to a list, and returns the job with them. A gang is
// ready when none of its tasks is placed or pauses. A job with unmet dependencies or on hold has no ready tasks, one with
// max_parallel as many as may be placed besides those that are.
func (s *State) appendReadyTasks(j *job.Job, groups map[queue.GroupKey][]string, list []queue.WaitingTask) (queue.WaitingJob, []queue.WaitingTask) {
	w, from := queue.WaitingJob{Spec: j.Spec, Run: max(j.Run, 1), Submitted: j.Submitted}, len(list)
	paused, waits := false, false
	for i := range j.Tasks {
		switch t := &j.Tasks[i]; {
		case t.State == job.Waiting && t.NotBefore.After(s.now):
			paused, waits = true, true
		case t.State == job.Waiting:
			list, waits = append(list, queue.WaitingTask{ID: t.ID, Index: i}), true
		}
	}
	if !waits {
		return w, list
	}
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State.IsPlaced() {
			w.PeerAgents = append(w.PeerAgents, t.AgentID)
		}
	}
	w.ImageExclusions, w.Tasks = imageExclusions(j), list[from:len(list):len(list)]
	if j.Spec.Gang && (paused || len(w.PeerAgents) > 0) || len(j.Spec.UnmetDependencies()) > 0 || s.holds.IsHeld(j) {
		w.Tasks = nil
	}
	if limit := j.Spec.MaxParallel; limit > 0 {
		w.Tasks = w.Tasks[:min(len(w.Tasks), max(limit-len(w.PeerAgents), 0))]
	}
	if j.Spec.Group != "" {
		w.PeerAgents = groups[queue.GroupKeyOf(j.Spec)]
	}
	return w, list
}

// hasPreemptible reports whether a waiting job could preempt a running task.
func hasPreemptible(in *placement.PlanInput) bool {
	highest := map[string]int{}
	for i := range in.Waiting {
		w := &in.Waiting[i]
		if p, ok := highest[w.Spec.Role]; !ok || w.Priority() > p {
			highest[w.Spec.Role] = w.Priority()
		}
	}
	return slices.ContainsFunc(in.Running, func(r queue.RunningTask) bool {
		p, ok := highest[r.Spec.Role]
		return ok && placement.IsPreemptible(&r, p) && eviction.HasRunEnough(&r, in.Now)
	})
}

// imageExclusions returns the exclusions of all tasks of a job, each once, since they have the same image.
func imageExclusions(j *job.Job) []job.Constraint {
	var all []job.Constraint
	for i := range j.Tasks {
		for _, c := range j.Tasks[i].ImageExclusions {
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

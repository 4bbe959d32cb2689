package sched

import (
	"cmp"
	"slices"
	"time"

	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// newPlacementInput returns what waits and what runs, without agents.
func (s *State) newPlacementInput(now time.Time) placement.PlanInput {
	return s.fillPlacementInput(&queueCache{}, now)
}

// fillPlacementInput is newPlacementInput in the memory of a cache. The result is valid until the next call with it.
func (s *State) fillPlacementInput(memory *queueCache, now time.Time) placement.PlanInput {
	in := placement.PlanInput{
		Now: now, AllShared: s.sharedDevices, ReturnedAgents: map[string]bool{},
		Waiting: memory.waiting[:0], Running: memory.running[:0],
	}
	for id, at := range s.returnedAt {
		if now.Sub(at) >= s.cfg.ReturnOffersEvery {
			delete(s.returnedAt, id)
			continue
		}
		in.ReturnedAgents[id] = true
	}
	var groups map[queue.GroupKey][]string
	tasks, list := memory.tasks[:0], s.queuedJobs()
	for i := range list {
		j := list[i].Job
		if j.Spec.Group != "" && groups == nil {
			groups = s.agentsByGroup()
		}
		var w queue.WaitingJob
		if w, tasks = s.appendReadyTasks(now, j, groups, tasks); len(w.Tasks) > 0 {
			w.DemandNumber = s.demandNumberOf(&list[i])
			in.Waiting = append(in.Waiting, w)
		}
		for t := range j.Tasks {
			if j.Tasks[t].State.IsPlaced() {
				in.Running = append(in.Running, s.runningTask(now, j, &j.Tasks[t]))
			}
		}
	}
	in.Running = append(in.Running, s.freedPlaces(now)...)
	in.DemandNumbers = s.cache.queue.numbers
	memory.waiting, memory.running, memory.tasks = in.Waiting, in.Running, tasks
	return in
}

// appendReadyTasks appends the tasks of a job that may be placed now to a list, and returns the job with them. A gang is
// ready when none of its tasks is placed or pauses. A job with unmet dependencies has no ready tasks, one with
// max_parallel as many as may be placed besides those that are.
func (s *State) appendReadyTasks(now time.Time, j *job.Job, groups map[queue.GroupKey][]string, list []queue.WaitingTask) (queue.WaitingJob, []queue.WaitingTask) {
	w, from := queue.WaitingJob{Spec: &j.Spec, Submitted: j.Submitted}, len(list)
	paused, waits := false, false
	for i := range j.Tasks {
		switch t := &j.Tasks[i]; {
		case t.State == job.Waiting && t.NotBefore.After(now):
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
	if j.Spec.Gang && (paused || len(w.PeerAgents) > 0) || len(j.Spec.UnmetDependencies()) > 0 {
		w.Tasks = nil
	}
	if limit := j.Spec.MaxParallel; limit > 0 {
		w.Tasks = w.Tasks[:min(len(w.Tasks), max(limit-len(w.PeerAgents), 0))]
	}
	if j.Spec.Group != "" {
		w.PeerAgents = groups[queue.GroupKeyOf(&j.Spec)]
	}
	return w, list
}

// agentsByGroup returns the agents of each group's placed tasks, one entry a task.
func (s *State) agentsByGroup() map[queue.GroupKey][]string {
	groups := map[queue.GroupKey][]string{}
	for _, j := range s.queuedJobs() {
		if j.Spec.Group == "" {
			continue
		}
		key := queue.GroupKeyOf(&j.Spec)
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State.IsPlaced() {
				groups[key] = append(groups[key], t.AgentID)
			}
		}
	}
	return groups
}

// maxOverrun is how much longer than announced a task may run before plans stop expecting its end.
func maxOverrun(runs time.Duration) time.Duration { return max(runs/10, time.Minute) }

func (s *State) runningTask(now time.Time, j *job.Job, t *job.Task) queue.RunningTask {
	r := queue.RunningTask{
		TaskID: t.ID, AgentID: t.AgentID, Spec: &j.Spec,
		GPUTypes: t.GPUTypes, DeviceIDs: t.DeviceIDs, Shares: t.Shares, Ports: t.Ports, Since: t.Changed,
	}
	if !t.Started.IsZero() {
		r.Since = t.Started
	}
	switch runs := j.Spec.ExpectedRunTime(); {
	case !t.KillRequested.IsZero():
		r.Ending, r.Ends = true, t.KillRequested.Add(j.Spec.KillGrace+placement.ExitSlack)
		r.Stuck = r.Ends.Before(now)
	case runs > 0 && !r.Since.Add(runs+maxOverrun(runs)).Before(now):
		r.Ends = r.Since.Add(runs)
	}
	r.Stuck = r.Stuck || t.State == job.Unreachable || s.isClosed(t.Hostname, t.AgentID)
	return r
}

// runningTasks returns the tasks that hold places, and the freed places.
func (s *State) runningTasks(now time.Time) []queue.RunningTask {
	var list []queue.RunningTask
	for _, name := range s.queue {
		j := s.jobs[name]
		for i := range j.Tasks {
			if j.Tasks[i].State.IsPlaced() {
				list = append(list, s.runningTask(now, j, &j.Tasks[i]))
			}
		}
	}
	return append(list, s.freedPlaces(now)...)
}

// DefaultRole returns the role of jobs that name none.
func (s *State) DefaultRole() string { return s.cfg.Policy.DefaultRole() }

// roleOf returns the role of a job. It is fixed when the job is submitted.
func (s *State) roleOf(spec *job.Spec) string { return cmp.Or(spec.Role, s.DefaultRole()) }

// roleNames returns all roles, the default one first.
func (s *State) roleNames() []string {
	if len(s.cfg.Policy.Roles) == 0 {
		return []string{""}
	}
	names := make([]string, len(s.cfg.Policy.Roles))
	for i, r := range s.cfg.Policy.Roles {
		names[i] = r.Name
	}
	return names
}

// hasPreemptible reports whether a waiting job could preempt a running task.
func hasPreemptible(in *placement.PlanInput) bool {
	highest := map[string]int{}
	for i := range in.Waiting {
		w := &in.Waiting[i]
		if p, ok := highest[w.Spec.Role]; !ok || w.Spec.Priority > p {
			highest[w.Spec.Role] = w.Spec.Priority
		}
	}
	return slices.ContainsFunc(in.Running, func(r queue.RunningTask) bool {
		p, ok := highest[r.Spec.Role]
		return ok && r.Spec.Preemptible && !r.Ending && !r.Stuck && r.Spec.Priority < p
	})
}

// hasPreemptibleJob reports whether any job is preemptible. It is a cheap check before hasPreemptible.
func (s *State) hasPreemptibleJob() bool {
	return slices.ContainsFunc(s.queuedJobs(), func(j cachedJob) bool { return j.Spec.Preemptible })
}

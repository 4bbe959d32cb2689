package sched

import (
	"cmp"
	"time"

	"mesos-gpu/framework/sched/eviction"

	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// maxOverrun is how much longer than announced a task may run before plans stop expecting its end.
func maxOverrun(runs time.Duration) time.Duration { return max(runs/10, time.Minute) }

// runningTask returns what plans see of a task that holds a place. Its end is predicted from the kill that was requested,
// or from its run time unless it has already run much longer. A task that has outlived its kill, or whose agent cannot be
// used, is stuck: nothing waits for its place.
func (s *State) runningTask(ref taskRef) queue.RunningTask {
	t := ref.get()
	r := placeOf(ref.job, t)
	spec := r.Spec
	r.Lowered = s.budgets.isLowered(spec, t)
	switch runs := spec.ExpectedRunTime(); {
	case !t.KillRequested.IsZero():
		r.Ending, r.Ends = true, t.KillRequested.Add(cmp.Or(warnedGrace(ref), spec.ShutdownDelay()+spec.KillGrace)+eviction.ExitSlack)
		r.Stuck = r.Ends.Before(s.now)
	case runs > 0 && !r.Since.Add(runs+maxOverrun(runs)).Before(s.now):
		r.Ends = r.Since.Add(runs)
	}
	r.Stuck = r.Stuck || t.State == job.Unreachable || s.isClosed(t.Hostname, t.AgentID)
	return r
}

// placeOf returns the place of a task that was launched, without its end.
func placeOf(j *job.Job, t *job.Task) queue.RunningTask {
	return queue.RunningTask{
		TaskID: t.ID, AgentID: t.AgentID, Spec: j.SpecOf(t), Run: max(j.Run, 1),
		GPUTypes: t.HeldProducts(), DeviceIDs: t.DeviceIDs, Shares: t.Shares, Ports: t.Ports, Since: cmp.Or(t.Started, t.Changed),
	}
}

// forecastTask is runningTask with a predicted end, if run times are predicted and the job declares none.
func (s *State) forecastTask(ref taskRef) queue.RunningTask {
	r := s.runningTask(ref)
	if s.runTimes != nil && !r.Ending && (r.Ends.IsZero() || r.Spec.RunTime == 0) {
		if end := s.runTimes.predictEnd(ref.job, r.Since, s.now); !end.IsZero() {
			r.Ends = end
		}
	}
	return r
}

// runningTasks returns the tasks that hold places, and the freed places.
func (s *State) runningTasks() []queue.RunningTask {
	var list []queue.RunningTask
	for ref := range s.placedTasks() {
		list = append(list, s.runningTask(ref))
	}
	return s.appendFreedPlaces(list)
}

package sched

import (
	"cmp"
	"time"

	"mesos-gpu/framework/sched/placement"
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
	spec := ref.job.SpecOf(t)
	r := queue.RunningTask{
		TaskID: t.ID, AgentID: t.AgentID, Spec: spec,
		GPUTypes: t.GPUTypes, DeviceIDs: t.DeviceIDs, Shares: t.Shares, Ports: t.Ports, Since: t.Changed,
	}
	if !t.Started.IsZero() {
		r.Since = t.Started
	}
	switch runs := spec.ExpectedRunTime(); {
	case !t.KillRequested.IsZero():
		r.Ending, r.Ends = true, t.KillRequested.Add(cmp.Or(warnedGrace(ref), spec.ShutdownDelay()+spec.KillGrace)+placement.ExitSlack)
		r.Stuck = r.Ends.Before(s.now)
	case runs > 0 && !r.Since.Add(runs+maxOverrun(runs)).Before(s.now):
		r.Ends = r.Since.Add(runs)
	}
	r.Stuck = r.Stuck || t.State == job.Unreachable || s.isClosed(t.Hostname, t.AgentID)
	return r
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

// recordFreedPlace remembers the place of a task that is about to end, and revives offers for jobs that its end may let
// start.
func (s *State) recordFreedPlace(ref taskRef) {
	r, t := s.runningTask(ref), ref.get()
	r.Ending, r.Ends, r.Ended, r.Stuck = true, s.now, true, s.isClosed(t.Hostname, t.AgentID)
	timeout := freedPlaceTimeout
	if s.cfg.Policy.DeservesGPUs() {
		timeout = reclaimedPlaceTimeout
	}
	s.freed = append(s.freed, freedPlace{r, s.now.Add(timeout)})
	for role := range s.quotaBlockedRoles { // a quota may have room now
		s.offerDemands.entry(role).reviveWanted = true
	}
	clear(s.quotaBlockedRoles)
}

package sched

import (
	"fmt"
	"slices"

	"mesos-gpu/job"
)

// AdmitScale returns why a service may not have that many tasks, nil if it may.
func (s *State) AdmitScale(name string, tasks int) error {
	j, ok := s.jobs.Find(name)
	switch {
	case !ok:
		return fmt.Errorf("there is no job %q", name)
	case j.Spec.Service == nil:
		return fmt.Errorf("job %q is not a service, its number of tasks is fixed: submit another job", j.Spec.Name)
	case j.IsTerminal():
		return fmt.Errorf("service %q has ended: submit it again", j.Spec.Name)
	case isBeingKilled(j):
		return fmt.Errorf("service %q is being killed: submit it again once it has ended", j.Spec.Name)
	case tasks < 0 || tasks > job.MaxTasks:
		return fmt.Errorf("tasks: %d is not between 0 and %d", tasks, job.MaxTasks)
	}
	if more := tasks - j.WantedTasks(); more > 0 {
		return s.admitUsage(ownerOf(j.Spec), more, 0)
	}
	return nil
}

// isBeingKilled reports whether a user has killed the job.
func isBeingKilled(j *job.Job) bool {
	return slices.ContainsFunc(j.Tasks, func(t job.Task) bool {
		return t.State.IsLive() && !t.KillRequested.IsZero() && t.KillReason == job.KillByUser
	})
}

// scaleService changes the number of a service's tasks.
func (s *State) scaleService(e ScaleService) []Operation {
	if s.AdmitScale(e.Job, e.Tasks) != nil {
		return nil
	}
	j, _ := s.jobs.Find(e.Job)
	wanted := j.WantedTasks()
	more := e.Tasks - wanted
	if more < 0 {
		return s.stopTasks(StopTasks{TaskIDs: s.selectSurplusTasks(j, -more), Retire: true, By: e.By, Reason: e.Reason})
	}
	for i := 0; i < len(j.Tasks) && more > 0; i++ {
		if s.restoreRetired(taskRef{j, i}, e.Reason) {
			more--
		}
	}
	if more > 0 {
		s.addTasks(j, more, e.Reason)
	}
	s.recordScaling(j, wanted, e.By, e.Reason)
	return nil
}

// recordScaling records that the number of a service's tasks has changed, if it has.
func (s *State) recordScaling(j *job.Job, from int, by, reason string) {
	if to := j.WantedTasks(); to != from {
		s.recordChange(j, job.Change{Kind: job.ScaleChange, By: by, From: from, To: to, Reason: reason})
	}
}

// restoreRetired restarts a task that was retired by scaling down, and returns false if it was not. message is the
// message of the new attempt.
func (s *State) restoreRetired(ref taskRef, message string) bool {
	t := ref.get()
	if t.KillReason != job.KillByScaling {
		return false
	}
	if t.State.IsLive() {
		s.changeTask(ref).KillReason = job.KillByReplacement // restarts once it has ended
		return true
	}
	delete(s.tasks, t.ID)
	s.enqueueAttempt(ref, job.Task{Attempt: t.Attempt + 1, Message: message, Ran: t.Ran, ImageExclusions: t.ImageExclusions}) // its failures are forgotten
	return true
}

// addTasks adds tasks with a message to a service.
func (s *State) addTasks(j *job.Job, more int, message string) {
	s.taskMix.addJob(j.Spec, s.cfg.Policy.Overhead, -1)
	first := len(j.Tasks)
	spec := *j.Spec
	spec.Tasks += more
	j.Spec = &spec
	s.unshareTasks(j)
	j.Tasks = append(j.Tasks, make([]job.Task, more)...)
	s.taskMix.addJob(j.Spec, s.cfg.Policy.Overhead, 1)
	s.changes.markJob(j)
	for i := first; i < len(j.Tasks); i++ {
		s.enqueueAttempt(taskRef{j, i}, job.Task{Attempt: 1, Message: message})
	}
}

// stopTasks ends single tasks. Tasks of a service are replaced unless they are retired.
func (s *State) stopTasks(e StopTasks) []Operation {
	var ops []Operation
	var retired []*job.Job
	wanted := map[*job.Job]int{} // how many tasks they had before
	for _, id := range e.TaskIDs {
		ref, ok := s.tasks[id]
		if !ok || !ref.get().State.IsLive() {
			continue
		}
		why, message := job.KillByUser, "stopped"
		switch {
		case ref.job.Spec.Service != nil && e.Retire:
			if _, seen := wanted[ref.job]; !seen {
				retired, wanted[ref.job] = append(retired, ref.job), ref.job.WantedTasks()
			}
			why, message = job.KillByScaling, "its service was scaled down"
			if e.Reason != "" {
				message += ": " + e.Reason
			}
		case ref.job.Spec.Service != nil:
			why, message = job.KillByReplacement, "to be replaced"
		}
		ops = append(ops, s.stopTask(ref, why, e.By, message)...)
		s.retireJob(ref.job)
	}
	for _, j := range retired {
		s.recordScaling(j, wanted[j], e.By, e.Reason)
	}
	return ops
}

// endBackoff ends the pauses of waiting tasks.
func (s *State) endBackoff(e EndBackoff) {
	for _, id := range e.TaskIDs {
		ref, ok := s.tasks[id]
		if !ok || ref.get().State != job.Waiting {
			continue
		}
		t := s.changeTask(ref)
		t.Failures = 0
		if t.NotBefore.After(s.now) {
			t.NotBefore = s.offers.pausesCheckedAt // the pause does not count as waiting for a place
		}
		s.requestOffers(ref)
	}
}

func (s *State) stopTask(ref taskRef, why job.KillReason, by, message string) []Operation {
	t := ref.get()
	switch {
	case t.State == job.Waiting && why == job.KillByReplacement:
		return nil // nothing to replace
	case t.State == job.Waiting:
		old := *t
		t = s.changeTask(ref)
		t.KillRequested, t.KillReason, t.KilledBy = s.now, why, by
		s.transition(ref, job.Killed, message)
		if ref.job.Spec.Gang {
			return s.endGang(ref, &old, false)
		}
		return nil
	case why == job.KillByReplacement:
		return s.requestEnd(ref, why, by, message)
	default:
		return s.requestFinalEnd(ref, why, by, message)
	}
}

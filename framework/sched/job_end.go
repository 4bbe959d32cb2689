package sched

import (
	"fmt"
	"slices"

	"mesos-gpu/job"
)

// retireJob removes a job that has ended from the queue, and forgets ended jobs if there are too many. It keeps the job
// itself. Jobs that depend on it may start, or fail and are retired too. It must be called after
// each change that may end a job; it does nothing for a job that has not ended or is retired already.
func (s *State) retireJob(j *job.Job) {
	if !j.IsTerminal() || !s.endJob(j) {
		return
	}
	s.removeDependent(j)
	s.notifyDependents(j)
	s.limitEndedJobs(j)
}

// limitEndedJobs forgets ended jobs if there are too many: the oldest ones of the role and owner with the most. It keeps
// the job that has ended last.
func (s *State) limitEndedJobs(last *job.Job) {
	for {
		name, e := "", &s.ended
		switch {
		case e.tasks.total > s.cfg.MaxEndedTasks:
			name = e.oldestOfLargest(&e.tasks, last.Spec.Name)
		case e.bytes.total > s.cfg.MaxEndedBytes:
			name = e.oldestOfLargest(&e.bytes, last.Spec.Name)
		}
		if name == "" {
			return
		}
		s.forgetJob(s.jobs[name])
	}
}

// notifyDependents records the end of a job with the jobs that depend on it, since the ended job may be forgotten. It
// fails those whose condition is not met, and so the jobs that depend on their success.
func (s *State) notifyDependents(ended *job.Job) {
	names := s.dependents[ended.Spec.Name]
	delete(s.dependents, ended.Spec.Name)
	state := ended.State()
	for _, name := range names {
		j := s.jobs[name]
		if j == nil || j.IsTerminal() {
			continue
		}
		after := slices.Clone(j.Spec.After) // copies of the job share the old slice
		i := slices.IndexFunc(after, func(d job.Dependency) bool { return d.Job == ended.Spec.Name && !d.Met })
		if i < 0 {
			continue // another job of the name, submitted since
		}
		if !after[i].IsMetBy(state) {
			s.failWaitingTasks(j, fmt.Sprintf("job %s is %s", ended.Spec.Name, describeUnmet(after[i], state)))
			continue
		}
		after[i].Met = true
		j.Spec.After = after
		s.changes.markJob(j)
		if len(j.Spec.UnmetDependencies()) > 0 {
			continue
		}
		for i := range j.Tasks {
			if ref := (taskRef{j, i}); ref.get().State == job.Waiting {
				ref.get().NotBefore = s.now
				s.changes.markTask(ref)
				s.requestOffers(ref)
			}
		}
	}
}

// failWaitingTasks fails a job that has not started.
func (s *State) failWaitingTasks(j *job.Job, why string) {
	for i := range j.Tasks {
		switch ref := (taskRef{j, i}); {
		case j.Tasks[i].State == job.Waiting:
			s.transition(ref, job.Failed, why)
		case j.Tasks[i].IsRetired():
			s.retireForGood(ref, why)
		}
	}
	s.retireJob(j)
}

// forgetJob removes an ended job and all its records.
func (s *State) forgetJob(j *job.Job) {
	s.removeJob(j)
	s.endedAttempts.dropJob(j.Spec.Name)
	delete(s.reservationReasons, j.Spec.Name)
	s.taskMix.addJob(&j.Spec, s.cfg.Policy.Overhead, -1)
	s.changes.removeJob(j)
}

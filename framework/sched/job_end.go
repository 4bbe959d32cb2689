package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/job"
)

// retireJob removes a job that has ended from the queue, and forgets ended jobs if there are too many. It keeps the job
// itself. Jobs that depend on it may start, or fail and are retired too. It must be called after
// each change that may end a job; it does nothing for a job that has not ended or is retired already.
func (s *State) retireJob(j *job.Job) {
	if !j.IsTerminal() || !s.endJob(j) {
		return
	}
	s.notifyJobEnd(j)
	s.runTimes.dropJob(j)
	s.removeDependent(j)
	s.notifyDependents(j)
	s.limitEndedJobs(j)
}

// limitEndedJobs forgets ended jobs if there are too many: the oldest ones of the role and owner with the most. It keeps
// the job that has ended last.
func (s *State) limitEndedJobs(last *job.Job) {
	for {
		var oldest *job.Job
		switch e := &s.ended; {
		case e.tasks.total > s.cfg.MaxEndedTasks:
			oldest = e.oldestOfLargest(&e.tasks, last)
		case e.bytes.total > s.cfg.maxEndedBytes:
			oldest = e.oldestOfLargest(&e.bytes, last)
		}
		if oldest == nil {
			return
		}
		s.forgetJob(oldest)
	}
}

// limitRuns forgets the oldest runs of a job if there are more than its role keeps. j is the newest one.
func (s *State) limitRuns(j *job.Job) {
	runs := s.jobs.RunsOfOwner(j.Spec.Owner, j.Spec.Name)
	keep, _ := s.retentionOf(j.Spec.Role)
	for _, old := range runs[:max(0, len(runs)-keep)] {
		s.forgetJob(old)
	}
}

// expireEndedJobs forgets the runs that ended longer ago than their role keeps them.
func (s *State) expireEndedJobs() {
	var expired []*job.Job
	for k, l := range s.ended.lists {
		_, keep := s.retentionOf(k.role)
		for _, one := range l.all() {
			if keep == 0 || s.now.Sub(one.ended) < keep {
				break // the others ended later
			}
			expired = append(expired, one.job)
		}
	}
	slices.SortFunc(expired, compareSubmission)
	for _, j := range expired {
		s.forgetJob(j)
	}
}

// retentionOf returns how many runs of a job are kept in a role, and for how long after their end; 0 means without limit.
func (s *State) retentionOf(role string) (runs int, age time.Duration) {
	runs, age = s.cfg.KeepRuns, s.cfg.KeepEnded
	for i := range s.cfg.Policy.Roles {
		if r := &s.cfg.Policy.Roles[i]; r.Name == role {
			return cmp.Or(r.KeepRuns, runs), cmp.Or(r.KeepEnded, age)
		}
	}
	return runs, age
}

// notifyDependents records the end of a job with the jobs that depend on it, since the ended job may be forgotten. It
// fails those whose condition is not met, and so the jobs that depend on their success.
func (s *State) notifyDependents(ended *job.Job) {
	run, state := ended.RunID(), ended.State()
	jobs := s.dependents[run]
	delete(s.dependents, run)
	for _, j := range jobs {
		if j.IsTerminal() {
			continue // it was retired for another dependency
		}
		after := slices.Clone(j.Spec.After)
		unmet := func(d job.Dependency) bool { return d.NeedsEndOf(run) && !d.Met && !d.IsMetBy(state) }
		if i := slices.IndexFunc(after, unmet); i >= 0 {
			s.failWaitingTasks(j, fmt.Sprintf("job %s is %s", ended.Spec.Name, describeUnmet(after[i], state)))
			continue
		}
		for i := range after {
			after[i].Met = after[i].Met || after[i].NeedsEndOf(run)
		}
		spec := *j.Spec
		spec.After = after
		j.Spec = &spec
		s.changes.markJob(j)
		if len(j.Spec.UnmetDependencies()) > 0 {
			continue
		}
		for i := range j.Tasks {
			if ref := (taskRef{j, i}); ref.get().State == job.Waiting {
				s.changeTask(ref).NotBefore = s.now
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
			s.retireForGood(ref)
		}
	}
	s.retireJob(j)
}

// forgetRuns removes a run that has ended or, for a name alone, all runs of the owner of the newest one. It does nothing for a
// job that has not ended.
func (s *State) forgetRuns(name string) {
	j, ok := s.jobs.Find(name)
	if !ok || !j.IsTerminal() {
		return
	}
	runs := []*job.Job{j}
	if name == j.Spec.Name {
		runs = s.jobs.RunsOfOwner(j.Spec.Owner, name)
	}
	for _, j := range runs {
		s.forgetJob(j)
	}
}

// forgetJob removes an ended run and all its records.
func (s *State) forgetJob(j *job.Job) {
	for i := range j.Tasks {
		s.keepUnaccounted(&j.Tasks[i], j)
	}
	s.endedAttempts.dropJob(j.RunID())
	s.removeJob(j)
	s.keepLastNumber(j)
	s.taskMix.addJob(j.Spec, s.cfg.Policy.Overhead, -1)
	s.changes.removeJob(j)
}

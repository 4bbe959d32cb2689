package sched

import (
	"fmt"
	"slices"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/job/editdistance"
)

// MissingDependencyError reports that a job depends on a job that does not exist.
type MissingDependencyError struct {
	Name string
	// Near is an existing name that was probably meant, or "".
	Near string
}

func (e *MissingDependencyError) Error() string {
	text := fmt.Sprintf("after: there is no job %q", e.Name)
	if e.Near != "" {
		return text + fmt.Sprintf("; did you mean %q?", e.Near)
	}
	return text + ": submit it first"
}

// admitDependencies checks that the jobs on which spec depends exist, which excludes cycles, and can still end as
// required.
func (s *State) admitDependencies(spec *job.Spec, sees func(role string) bool) error {
	for _, d := range spec.After {
		j, ok := s.jobs[d.Job]
		switch {
		case !ok || !sees(j.Spec.Role):
			return &MissingDependencyError{Name: d.Job, Near: s.nearestJobName(d.Job, sees)}
		case j.IsTerminal() && !d.IsMetBy(j.State()):
			return fmt.Errorf("after: job %s has ended and is %s: submit it anew first", j.Spec.Name, describeUnmet(d, j.State()))
		}
	}
	return nil
}

// describeUnmet returns, for example, "FAILED, not finished".
func describeUnmet(d job.Dependency, state job.State) string {
	if d.Outcome == job.OutcomeFailed {
		return fmt.Sprintf("%s, not failed", state)
	}
	return fmt.Sprintf("%s, not finished", state)
}

// maxNameCandidates is how many of the newest jobs are compared with a misspelled name.
const maxNameCandidates = 1000

// nearestJobName returns the visible job whose name differs in at most two letters, or "".
func (s *State) nearestJobName(name string, sees func(role string) bool) string {
	best, distance := "", 3
	for _, list := range [][]string{s.queue, s.ended} {
		for _, other := range list[max(0, len(list)-maxNameCandidates):] {
			if d := editdistance.Distance(name, other); d < distance && d < len(name) && sees(s.jobs[other].Spec.Role) {
				best, distance = other, d
			}
		}
	}
	return best
}

// registerDependencies records on which jobs a new one depends. Jobs that have ended already meet its conditions, as
// admitDependencies has checked.
func (s *State) registerDependencies(j *job.Job) {
	after := slices.Clone(j.Spec.After)
	for i := range after {
		other := s.jobs[after[i].Job]
		if after[i].Met = other.IsTerminal(); !after[i].Met {
			s.dependents[other.Spec.Name] = append(s.dependents[other.Spec.Name], j.Spec.Name)
		}
	}
	j.Spec.After = after
}

// notifyDependents records the end of a job with the jobs that depend on it, since the ended job may be forgotten. It
// fails those whose condition is not met.
func (s *State) notifyDependents(now time.Time, ended *job.Job) {
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
			s.failWaitingTasks(now, j, fmt.Sprintf("job %s is %s", ended.Spec.Name, describeUnmet(after[i], state)))
			continue
		}
		after[i].Met = true
		j.Spec.After = after
		s.markJobChanged(j)
		if len(j.Spec.UnmetDependencies()) > 0 {
			continue
		}
		for i := range j.Tasks {
			if ref := (taskRef{j, i}); ref.get().State == job.Waiting {
				ref.get().NotBefore = now
				s.markTaskDirty(ref)
				s.requestOffers(ref)
			}
		}
	}
}

// unregisterDependencies removes a job that has ended from the dependents of others.
func (s *State) unregisterDependencies(j *job.Job) {
	for _, d := range j.Spec.UnmetDependencies() {
		names := slices.DeleteFunc(s.dependents[d.Job], func(name string) bool { return name == j.Spec.Name })
		if s.dependents[d.Job] = names; len(names) == 0 {
			delete(s.dependents, d.Job)
		}
	}
}

// failWaitingTasks fails a job that has not started, and so the jobs that depend on its success.
func (s *State) failWaitingTasks(now time.Time, j *job.Job, why string) {
	for i := range j.Tasks {
		switch ref := (taskRef{j, i}); {
		case j.Tasks[i].State == job.Waiting:
			s.transition(now, ref, job.Failed, why)
		case j.Tasks[i].IsRetired():
			s.retireForGood(now, ref, why)
		}
	}
	s.retireJob(j)
}

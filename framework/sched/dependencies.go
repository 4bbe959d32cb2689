package sched

import (
	"fmt"
	"slices"

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
func (t *jobTable) admitDependencies(spec *job.Spec, sees func(role string) bool) error {
	for _, d := range spec.After {
		j, ok := t.jobs.Newest[d.Job]
		switch {
		case !ok || !sees(j.Spec.Role):
			return &MissingDependencyError{Name: d.Job, Near: t.nearestJobName(d.Job, sees)}
		case j.IsTerminal() && !d.IsMetBy(j.State()):
			return fmt.Errorf("after: job %s has ended and is %s: submit it again first", j.Spec.Name, describeUnmet(d, j.State()))
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
func (t *jobTable) nearestJobName(name string, sees func(role string) bool) string {
	best, distance := "", 3
	compare := func(other *job.Job) {
		if d := editdistance.Distance(name, other.Spec.Name); d < distance && d < len(name) && sees(other.Spec.Role) {
			best, distance = other.Spec.Name, d
		}
	}
	compared := 0
	for other := range t.queue.newest() {
		if compared++; compared > maxNameCandidates {
			break
		}
		compare(other)
	}
	for _, ended := range t.ended.newestNames(maxNameCandidates) {
		compare(t.jobs.Newest[ended])
	}
	return best
}

// resolveDependencies returns a copy of the dependencies of a new job. Jobs that have ended already meet its conditions,
// as admitDependencies has checked.
func (t *jobTable) resolveDependencies(after []job.Dependency) []job.Dependency {
	after = slices.Clone(after)
	for i := range after {
		after[i].Met = t.jobs.Newest[after[i].Job].IsTerminal()
	}
	return after
}

// addDependent adds a job to the dependents of the jobs that must end before it.
func (t *jobTable) addDependent(j *job.Job) {
	for _, d := range j.Spec.UnmetDependencies() {
		t.dependents[d.Job] = append(t.dependents[d.Job], j.Spec.Name)
	}
}

// removeDependent removes a job that has ended from the dependents of others.
func (t *jobTable) removeDependent(j *job.Job) {
	for _, d := range j.Spec.UnmetDependencies() {
		names := slices.DeleteFunc(t.dependents[d.Job], func(name string) bool { return name == j.Spec.Name })
		if t.dependents[d.Job] = names; len(names) == 0 {
			delete(t.dependents, d.Job)
		}
	}
}

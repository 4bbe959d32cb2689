package sched

import (
	"fmt"
	"slices"
	"strings"

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

// AmbiguousDependencyError reports that a job depends on a name that several jobs have.
type AmbiguousDependencyError struct {
	// Reference is what the user has written, Candidates are the qualified names of the jobs.
	Reference  string
	Candidates []string
}

func (e *AmbiguousDependencyError) Error() string {
	return fmt.Sprintf("after: %q names %d jobs: name one of %s, or its number", e.Reference, len(e.Candidates), strings.Join(e.Candidates, ", "))
}

// admitDependencies checks that the jobs on which spec depends exist, which excludes cycles, and can still end as
// required.
func (t *jobTable) admitDependencies(spec *job.Spec, sees func(role string) bool) error {
	for _, d := range spec.After {
		j, err := t.findDependency(&d, spec.Owner, sees)
		switch {
		case err != nil:
			return err
		case j.IsTerminal() && !d.IsMetBy(j.State()):
			return fmt.Errorf("after: job %s has ended and is %s: submit it again first", j.Spec.Name, describeUnmet(d, j.State()))
		}
	}
	return nil
}

// findDependency returns the run that a dependency of an owner's job means, for a user who sees the jobs of some roles.
func (t *jobTable) findDependency(d *job.Dependency, owner string, sees func(role string) bool) (*job.Job, error) {
	j, _, ok, candidates := t.jobs.Resolve(d.Target(), owner, sees)
	switch {
	case ok:
		return j, nil
	case len(candidates) == 0:
		return nil, &MissingDependencyError{Name: d.Job, Near: t.nearestJobName(d.Job, sees)}
	}
	return nil, &AmbiguousDependencyError{Reference: d.Job, Candidates: job.QualifiedNames(candidates)}
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
	for _, ended := range t.ended.newestJobs(maxNameCandidates) {
		compare(ended)
	}
	return best
}

// ResolveDependencies gives a new job a copy of its dependencies in which those that admitDependencies can find have their
// runs. Jobs that have ended already meet its conditions, as admitDependencies checks. The leader calls it with what the job's
// user sees, so that SubmitJob, which sees all, finds the same runs.
func (t *jobTable) ResolveDependencies(spec *job.Spec, sees func(role string) bool) {
	spec.After = slices.Clone(spec.After)
	for i := range spec.After {
		if d := &spec.After[i]; d.Run == "" {
			if j, err := t.findDependency(d, spec.Owner, sees); err == nil {
				d.Run, d.Met = j.RunID().String(), j.IsTerminal()
			}
		}
	}
}

// addDependent adds a job to the dependents of the runs that must end before it.
func (t *jobTable) addDependent(j *job.Job) {
	for _, d := range j.Spec.UnmetDependencies() {
		if target, ok := t.jobs.Find(d.Target()); ok && !slices.Contains(t.dependents[target.RunID()], j) {
			t.dependents[target.RunID()] = append(t.dependents[target.RunID()], j)
		}
	}
}

// removeDependent removes a job that has ended from the dependents of others.
func (t *jobTable) removeDependent(j *job.Job) {
	for _, d := range j.Spec.UnmetDependencies() {
		target, ok := t.jobs.Find(d.Target())
		if !ok {
			continue
		}
		run := target.RunID()
		jobs := slices.DeleteFunc(t.dependents[run], func(one *job.Job) bool { return one == j })
		if t.dependents[run] = jobs; len(jobs) == 0 {
			delete(t.dependents, run)
		}
	}
}

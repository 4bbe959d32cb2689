package job

import (
	"cmp"
	"slices"
	"strings"
)

// Dependency is a job that must end before the tasks of another job start.
type Dependency struct {
	// Job is a Reference to the job that must end, as the user has written it.
	Job string `json:"job"`
	// Outcome is OutcomeFinished if it is empty.
	Outcome DependencyOutcome `json:"state,omitempty"`
	// Run is the run that must end, NAME@RUN. The scheduler sets it when the dependent job is submitted. It is empty in
	// job files, and in journals of releases in which a name had one owner: there it is the newest run of the name Job.
	Run string `json:"run,omitempty"`
	// Met is true once the job has ended with that outcome. The scheduler sets it. It stays true if that job is
	// forgotten or submitted again.
	Met bool `json:"met,omitempty"`
}

// SubmittedDependencies returns a copy of dependencies as a user submits them, without what the scheduler sets.
func SubmittedDependencies(after []Dependency) []Dependency {
	after = slices.Clone(after)
	for i := range after {
		after[i].Run, after[i].Met = "", false
	}
	return after
}

// Target returns the run that must end, as of RunTable.Find.
func (d *Dependency) Target() string { return cmp.Or(d.Run, d.Job) }

// NeedsEndOf reports whether a run is the one that must end.
func (d *Dependency) NeedsEndOf(run RunID) bool {
	return d.Run == run.String() || d.Run == "" && d.Job == run.Name
}

// DependencyOutcome is how a job must end to satisfy a dependency.
type DependencyOutcome string

const (
	// OutcomeFinished requires that all of its tasks have finished.
	OutcomeFinished DependencyOutcome = "finished"
	// OutcomeEnded accepts any end.
	OutcomeEnded DependencyOutcome = "ended"
	// OutcomeFailed accepts any end except OutcomeFinished, also a user's kill.
	OutcomeFailed DependencyOutcome = "failed"
)

// dependencyOutcomes lists all outcomes.
func dependencyOutcomes() []DependencyOutcome {
	return []DependencyOutcome{OutcomeFinished, OutcomeEnded, OutcomeFailed}
}

// IsMetBy reports whether a job that has ended in that state satisfies the
// dependency.
func (d Dependency) IsMetBy(state State) bool {
	switch d.Outcome {
	case OutcomeEnded:
		return true
	case OutcomeFailed:
		return state != Finished
	default:
		return state == Finished
	}
}

// String returns, for example, "job prepare to finish".
func (d Dependency) String() string {
	verb := map[DependencyOutcome]string{OutcomeEnded: "end", OutcomeFailed: "fail"}[d.Outcome]
	if verb == "" {
		verb = "finish"
	}
	return "job " + d.Job + " to " + verb
}

// maxDependencies bounds the dependencies of one job.
const maxDependencies = 100

// validateDependencies checks the dependencies alone. Whether the jobs exist is checked
// by the scheduler.
func (s *Spec) validateDependencies(bad reportFunc) {
	if len(s.After) > maxDependencies {
		bad(field("after"), "after: %d jobs are more than %d", len(s.After), maxDependencies)
	}
	for i, d := range s.After {
		switch {
		case !isReference(d.Job):
			bad(field("after", i), "after: %q is not a job: want NAME, OWNER/NAME, NAME@RUN or a number", d.Job)
		case d.Job == s.Name:
			bad(field("after", i).and("name"), "after: a job cannot wait for itself")
		case slices.ContainsFunc(s.After[:i], func(o Dependency) bool { return o.Job == d.Job }):
			bad(field("after", i), "after: %s is given twice", d.Job)
		}
		if d.Outcome != "" && !slices.Contains(dependencyOutcomes(), d.Outcome) {
			bad(field("after", i), "after: state %q of %s is not one of %s", d.Outcome, d.Job, outcomeNames())
		}
	}
}

// outcomeNames returns all outcomes as a text for messages.
func outcomeNames() string {
	var names []string
	for _, o := range dependencyOutcomes() {
		names = append(names, string(o))
	}
	return strings.Join(names, ", ")
}

// UnmetDependencies returns the dependencies that the job still waits for.
func (s *Spec) UnmetDependencies() []Dependency {
	var open []Dependency
	for _, d := range s.After {
		if !d.Met {
			open = append(open, d)
		}
	}
	return open
}

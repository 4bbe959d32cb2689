package job

import (
	"slices"
	"strings"
)

// Dependency is another job that a job waits for.
type Dependency struct {
	Job string `json:"job"`
	// Outcome is Finish where it is empty.
	Outcome DependencyOutcome `json:"state,omitempty"`
	// Met is the scheduler's to set: the job has ended so. It may be forgotten
	// since, or have been submitted anew.
	Met bool `json:"met,omitempty"`
}

// DependencyOutcome is how a job must end for those that wait for it.
type DependencyOutcome string

const (
	// OutcomeFinished: all of its tasks have finished.
	OutcomeFinished DependencyOutcome = "finished"
	// OutcomeEnded: in whatever way.
	OutcomeEnded DependencyOutcome = "ended"
	// OutcomeFailed: otherwise than by finishing, also by somebody's kill.
	OutcomeFailed DependencyOutcome = "failed"
)

// dependencyOutcomes lists them all.
func dependencyOutcomes() []DependencyOutcome {
	return []DependencyOutcome{OutcomeFinished, OutcomeEnded, OutcomeFailed}
}

// IsMetBy reports whether a job that has ended in that state has ended as
// wanted.
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

// String reads "job prepare to finish".
func (d Dependency) String() string {
	verb := map[DependencyOutcome]string{OutcomeEnded: "end", OutcomeFailed: "fail"}[d.Outcome]
	if verb == "" {
		verb = "finish"
	}
	return "job " + d.Job + " to " + verb
}

// maxDependencies bounds the jobs that one job waits for.
const maxDependencies = 100

// validateDependencies checks what the job waits for. Whether there are such jobs the
// scheduler knows.
func (s *Spec) validateDependencies(bad func(format string, args ...any)) {
	if len(s.After) > maxDependencies {
		bad("after: %d jobs are more than %d", len(s.After), maxDependencies)
	}
	for i, d := range s.After {
		switch {
		case !namePattern.MatchString(d.Job):
			bad("after: %q is no job's name", d.Job)
		case d.Job == s.Name:
			bad("after: a job cannot wait for itself")
		case slices.ContainsFunc(s.After[:i], func(o Dependency) bool { return o.Job == d.Job }):
			bad("after: %s stands twice", d.Job)
		}
		if d.Outcome != "" && !slices.Contains(dependencyOutcomes(), d.Outcome) {
			bad("after: state %q of %s is none of %s", d.Outcome, d.Job, outcomeNames())
		}
	}
}

func outcomeNames() string {
	var names []string
	for _, o := range dependencyOutcomes() {
		names = append(names, string(o))
	}
	return strings.Join(names, ", ")
}

// UnmetDependencies are the jobs whose end the job still waits for.
func (s *Spec) UnmetDependencies() []Dependency {
	var open []Dependency
	for _, d := range s.After {
		if !d.Met {
			open = append(open, d)
		}
	}
	return open
}

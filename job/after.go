package job

import (
	"slices"
	"strings"
)

// Dependency is another job that a job waits for.
type Dependency struct {
	Job string `json:"job"`
	// Outcome is Finish where it is empty.
	Outcome Outcome `json:"state,omitempty"`
	// Met is the scheduler's to set: the job has ended so. It may be forgotten
	// since, or have been submitted anew.
	Met bool `json:"met,omitempty"`
}

// Outcome is how a job must end for those that wait for it.
type Outcome string

const (
	// Finish: all of its tasks have finished.
	Finish Outcome = "finished"
	// End: in whatever way.
	End Outcome = "ended"
	// Fail: otherwise than by finishing, also by somebody's kill.
	Fail Outcome = "failed"
)

// outcomes lists them all.
func outcomes() []Outcome { return []Outcome{Finish, End, Fail} }

// Holds reports whether a job that has ended in that state has ended as
// wanted.
func (d Dependency) Holds(state State) bool {
	switch d.Outcome {
	case End:
		return true
	case Fail:
		return state != Finished
	default:
		return state == Finished
	}
}

// String reads "job prepare to finish".
func (d Dependency) String() string {
	verb := map[Outcome]string{End: "end", Fail: "fail"}[d.Outcome]
	if verb == "" {
		verb = "finish"
	}
	return "job " + d.Job + " to " + verb
}

// maxAfter bounds the jobs that one job waits for.
const maxAfter = 100

// validateAfter checks what the job waits for. Whether there are such jobs the
// scheduler knows.
func (s *Spec) validateAfter(bad func(format string, args ...any)) {
	if len(s.After) > maxAfter {
		bad("after: %d jobs are more than %d", len(s.After), maxAfter)
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
		if d.Outcome != "" && !slices.Contains(outcomes(), d.Outcome) {
			bad("after: state %q of %s is none of %s", d.Outcome, d.Job, outcomeNames())
		}
	}
}

func outcomeNames() string {
	var names []string
	for _, o := range outcomes() {
		names = append(names, string(o))
	}
	return strings.Join(names, ", ")
}

// WaitsFor are the jobs whose end the job still waits for.
func (s *Spec) WaitsFor() []Dependency {
	var open []Dependency
	for _, d := range s.After {
		if !d.Met {
			open = append(open, d)
		}
	}
	return open
}

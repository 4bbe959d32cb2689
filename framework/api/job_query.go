package api

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// JobQuery selects the jobs to list. Fields that are "" select all jobs.
type JobQuery struct {
	PageRequest
	// State is LiveJobs, EndedJobs, or one or more states of jobs, separated by commas.
	State string
	// Role and Owner select jobs of a role and of a user. Name is a pattern of path.Match for its name.
	Role, Owner, Name string
	// Labels are labels that the job has, separated by commas: NAME=VALUE, or NAME for any
	// value.
	Labels string
	// NewestFirst lists the job that was submitted last first.
	NewestFirst bool
}

// NewestFirst is the value of the query parameter order.
const NewestFirst = "newest"

// Values of JobQuery.State.
const (
	LiveJobs  = "live"
	EndedJobs = "ended"
)

// Validate returns an error if the query has an unknown state or a malformed pattern.
func (q *JobQuery) Validate() error {
	if q.State != "" && q.State != LiveJobs && q.State != EndedJobs {
		for name := range strings.SplitSeq(q.State, ",") {
			if !slices.Contains(job.States(), job.State(name)) {
				return fmt.Errorf("state %q is neither %s, %s nor a state of jobs such as RUNNING", name, LiveJobs, EndedJobs)
			}
		}
	}
	if _, err := path.Match(q.Name, ""); err != nil {
		return fmt.Errorf("name %q: a bracket is not closed", q.Name)
	}
	return nil
}

// MatchesSpec reports whether the query selects a job by everything but its state.
func (q *JobQuery) MatchesSpec(s *job.Spec) bool {
	if q.Role != "" && s.Role != q.Role || q.Owner != "" && s.Owner != q.Owner {
		return false
	}
	if like, _ := path.Match(q.Name, s.Name); q.Name != "" && !like { // Validate has checked the pattern
		return false
	}
	if q.Labels == "" {
		return true
	}
	for label := range strings.SplitSeq(q.Labels, ",") {
		name, value, exact := strings.Cut(label, "=")
		if got, ok := s.Labels[name]; !ok || exact && got != value {
			return false
		}
	}
	return true
}

// MatchesState reports whether the query selects a job by its state. live is whether it has not
// ended.
func (q *JobQuery) MatchesState(state job.State, live bool) bool {
	switch q.State {
	case "":
		return true
	case LiveJobs:
		return live
	case EndedJobs:
		return !live
	}
	return slices.Contains(strings.Split(q.State, ","), string(state))
}

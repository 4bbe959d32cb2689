package sched

import (
	"regexp"
	"slices"

	"mesos-gpu/job"
)

// ImageMismatch says what of its agent a task's image does not get on with.
type ImageMismatch string

const (
	// MismatchDriver: no agent with this driver will do.
	MismatchDriver ImageMismatch = "driver"
	// MismatchGPU: an agent with other GPUs might.
	MismatchGPU ImageMismatch = "gpu"
)

// exclusionFor keeps a task off what the agent it was on has: its driver, which
// an agent leaves behind with an update and many agents share; or else the
// agent itself. ok is false where neither has a name.
func (s *State) exclusionFor(t *job.Task, why ImageMismatch) (c job.Constraint, ok bool) {
	c = job.Constraint{Field: "@hostname", Operator: job.Unlike, Value: t.Hostname}
	if driver := s.driverOfAgent(t.AgentID); why == MismatchDriver && driver != "" {
		c.Field, c.Value = "@driver", driver
	}
	ok = c.Value != ""
	c.Value = regexp.QuoteMeta(c.Value)
	return c, ok
}

func (s *State) driverOfAgent(agentID string) string {
	if a := s.listedAgents[agentID]; a.Driver != "" {
		return a.Driver
	}
	for key, a := range s.lastOffered {
		if key.ID == agentID && a.Driver != "" {
			return a.Driver
		}
	}
	return ""
}

// imageExclusions are what the tasks of a job have learnt, each once: they share an
// image.
func imageExclusions(j *job.Job) []job.Constraint {
	var all []job.Constraint
	for i := range j.Tasks {
		for _, c := range j.Tasks[i].ImageExclusions {
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

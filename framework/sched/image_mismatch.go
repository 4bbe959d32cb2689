package sched

import (
	"regexp"
	"slices"

	"mesos-gpu/job"
)

// ImageMismatch is what prevents an image from running on an agent.
type ImageMismatch string

const (
	// MismatchDriver: no agent with this driver version can run the image.
	MismatchDriver ImageMismatch = "driver"
	// MismatchGPU: an agent with other GPUs may run the image.
	MismatchGPU ImageMismatch = "gpu"
)

// exclusionFor returns a constraint that keeps a task off agents like the one it was on: off the driver version, which
// changes with an update and is common to many agents, or off the agent itself. ok is false if neither is known.
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

// imageExclusions returns the exclusions of all tasks of a job, each once, since they have the same image.
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

package sched

import (
	"regexp"
	"slices"

	"mesos-gpu/job"
)

// Unfit says what of its agent a task's image does not get on with.
type Unfit string

const (
	// UnfitDriver: no agent with this driver will do.
	UnfitDriver Unfit = "driver"
	// UnfitGPU: an agent with other GPUs might.
	UnfitGPU Unfit = "gpu"
)

// elsewhere keeps a task off what the agent it was on has: its driver, which
// an agent leaves behind with an update and many agents share; or else the
// agent itself. ok is false where neither has a name.
func (s *State) elsewhere(t *job.Task, why Unfit) (c job.Constraint, ok bool) {
	c = job.Constraint{Field: "@hostname", Operator: job.Unlike, Value: t.Hostname}
	if driver := s.driverOf(t.AgentID); why == UnfitDriver && driver != "" {
		c.Field, c.Value = "@driver", driver
	}
	ok = c.Value != ""
	c.Value = regexp.QuoteMeta(c.Value)
	return c, ok
}

func (s *State) driverOf(agentID string) string {
	if a := s.cluster[agentID]; a.Driver != "" {
		return a.Driver
	}
	for key, a := range s.agents {
		if key.id == agentID && a.Driver != "" {
			return a.Driver
		}
	}
	return ""
}

// unfits are what the tasks of a job have learnt, each once: they share an
// image.
func unfits(j *job.Job) []job.Constraint {
	var all []job.Constraint
	for i := range j.Tasks {
		for _, c := range j.Tasks[i].Unfit {
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

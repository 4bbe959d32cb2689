package sched

import (
	"mesos-gpu/job"
)

// clientKey is what a submission is known by: keys of different owners never meet.
type clientKey struct{ owner, key string }

func clientKeyOf(spec *job.Spec) (c clientKey, ok bool) {
	if spec.ClientKey == nil {
		return c, false
	}
	return clientKey{spec.Owner, spec.ClientKey.Key}, true
}

func (s *State) addClientKey(spec *job.Spec) {
	if c, ok := clientKeyOf(spec); ok {
		s.clientKeys[c] = spec.Name
	}
}

// removeClientKey leaves the claim to another job, where that has it.
func (s *State) removeClientKey(spec *job.Spec) {
	if c, ok := clientKeyOf(spec); ok && s.clientKeys[c] == spec.Name {
		delete(s.clientKeys, c)
	}
}

// SpecByClientKey is the specification of the job that was submitted by the spec's
// owner and client key, as long as that job is remembered. Nobody changes it.
func (s *State) SpecByClientKey(spec *job.Spec) (*job.Spec, bool) {
	c, ok := clientKeyOf(spec)
	if !ok {
		return nil, false
	}
	j, ok := s.jobs[s.clientKeys[c]]
	if !ok {
		return nil, false
	}
	return &j.Spec, true
}

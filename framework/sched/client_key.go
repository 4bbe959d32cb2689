package sched

import (
	"mesos-gpu/job"
)

// clientKey identifies a submission. Keys of different owners are distinct.
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

// removeClientKey removes the key of a job unless another job has it now.
func (s *State) removeClientKey(spec *job.Spec) {
	if c, ok := clientKeyOf(spec); ok && s.clientKeys[c] == spec.Name {
		delete(s.clientKeys, c)
	}
}

// SpecByClientKey returns the job that was submitted with the spec's owner and client key, as long as it is remembered.
// The caller must not change it.
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

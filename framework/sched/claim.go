package sched

import "mesos-gpu/job"

// claim is what a submission is known by: keys of different owners never meet.
type claim struct{ owner, key string }

func claimOf(spec *job.Spec) (c claim, ok bool) {
	if spec.ClientKey == nil {
		return c, false
	}
	return claim{spec.Owner, spec.ClientKey.Key}, true
}

func (s *State) remember(spec *job.Spec) {
	if c, ok := claimOf(spec); ok {
		s.claims[c] = spec.Name
	}
}

// disclaim leaves the claim to another job, where that has it.
func (s *State) disclaim(spec *job.Spec) {
	if c, ok := claimOf(spec); ok && s.claims[c] == spec.Name {
		delete(s.claims, c)
	}
}

// Claimed is the specification of the job that was submitted by the spec's
// owner and client key, as long as that job is remembered. Nobody changes it.
func (s *State) Claimed(spec *job.Spec) (*job.Spec, bool) {
	c, ok := claimOf(spec)
	if !ok {
		return nil, false
	}
	j, ok := s.jobs[s.claims[c]]
	if !ok {
		return nil, false
	}
	return &j.Spec, true
}

package framework

import (
	"errors"

	"mesos-gpu/framework/sched"
)

// policy is what the configuration and the roles file say now.
func (s *Scheduler) policy() (sched.Policy, error) { return s.policyWith(s.door.jobs()) }

func (s *Scheduler) policyWith(jobs []sched.AllowedIn) (sched.Policy, error) {
	p := s.cfg.Sched.Policy
	p.AllowedIn = jobs
	if s.cfg.RolesFile == "" {
		return p, nil
	}
	roles, err := LoadRoles(s.cfg.RolesFile)
	if err != nil {
		return p, err
	}
	p.Roles = roles
	return p, nil
}

// Reload reads the roles file and the access file again: other weights and
// quotas hold from the next plan on, offers of a role that is gone are void,
// its tasks stay; other permissions hold from the next request on. With a
// mistake in either file neither changes anything.
func (s *Scheduler) Reload() error {
	if s.cfg.RolesFile == "" && s.door.gate == nil {
		return errors.New("reload: there is neither a roles file nor an access file to read again")
	}
	jobs, take, refused := s.door.read()
	p, err := s.policyWith(jobs)
	if err := errors.Join(refused, err); err != nil {
		return err
	}
	take()
	s.mu.Lock()
	emit := s.emit
	s.mu.Unlock()
	if emit != nil { // a standby reads the file when it leads
		emit(sched.PolicyChanged{Policy: p})
	}
	return nil
}

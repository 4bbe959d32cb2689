package framework

import (
	"errors"

	"mesos-gpu/framework/sched"
)

// loadPolicy is what the configuration and the roles file say now.
func (s *Scheduler) loadPolicy() (sched.Policy, error) {
	return s.loadPolicyWith(s.security.jobPermissions())
}

func (s *Scheduler) loadPolicyWith(jobs []sched.RolePermissions) (sched.Policy, error) {
	p := s.cfg.Sched.Policy
	p.RolePermissions = jobs
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
	if s.cfg.RolesFile == "" && s.security.gate == nil {
		return errors.New("reload: there is neither a roles file nor an access file to read again")
	}
	jobs, take, refused := s.security.readAccessFile()
	p, err := s.loadPolicyWith(jobs)
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

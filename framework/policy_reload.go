package framework

import (
	"errors"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/admission"
)

// loadPolicy returns the policy of the configuration and the current roles file.
func (s *Scheduler) loadPolicy() (sched.Policy, error) {
	return s.loadPolicyWith(s.security.jobPermissions())
}

func (s *Scheduler) loadPolicyWith(jobs []admission.RolePermissions) (sched.Policy, error) {
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

// Reload reads the roles file and the access file again. New weights and quotas
// apply from the next scheduling cycle on; offers of a removed role are not used,
// but its tasks keep running. New permissions apply to requests that arrive after
// Reload returns. If either file is invalid, Reload returns an error and changes nothing.
func (s *Scheduler) Reload() error {
	if s.cfg.RolesFile == "" && s.security.gate == nil {
		return errors.New("reload: there is neither a roles file nor an access file to read again")
	}
	jobs, take, refused := s.security.readAccessFile()
	p, err := s.loadPolicyWith(jobs)
	if err := errors.Join(refused, err); err != nil {
		return err
	}
	s.mu.Lock()
	changePolicy := s.changePolicy
	s.mu.Unlock()
	if changePolicy == nil { // a standby reads the roles file when it becomes the leader
		take()
		return nil
	}
	// The permissions of users and what their jobs may use apply together.
	if err := changePolicy(p, take); err != nil {
		take() // this scheduler no longer leads
	}
	return nil
}

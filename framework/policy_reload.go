package framework

import (
	"errors"
	"fmt"

	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/notifier"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/admission"
)

// loadPolicy returns the policy of the configuration and the current roles file.
func (s *Scheduler) loadPolicy() (sched.Policy, error) {
	targets := notification.AllowedTargets{}
	if s.notifier != nil {
		targets = s.notifier.AllowedTargets()
	}
	return s.loadPolicyWith(s.security.jobPermissions(), targets)
}

func (s *Scheduler) loadPolicyWith(jobs []admission.RolePermissions, targets notification.AllowedTargets) (sched.Policy, error) {
	p := s.cfg.Sched.Policy
	p.RolePermissions, p.NotificationTargets = jobs, targets
	if s.cfg.RolesFile == "" {
		return p, nil
	}
	roles, err := LoadRoles(s.cfg.RolesFile)
	if err != nil {
		return p, err
	}
	for i := range roles {
		if err := targets.CheckRules(roles[i].Notify); err != nil {
			return p, fmt.Errorf("%s: role %s: %w", s.cfg.RolesFile, roles[i].Name, err)
		}
	}
	p.Roles = roles
	return p, nil
}

// readNotifications reads the settings of notifications again. The returned function uses them.
func (s *Scheduler) readNotifications() (targets notification.AllowedTargets, take func(), err error) {
	if s.notifier == nil {
		return targets, func() {}, nil
	}
	settings, err := notifier.LoadSettings(s.cfg.Notifications)
	if err != nil {
		return targets, nil, err
	}
	return settings.Targets, func() { s.notifier.Configure(settings) }, nil
}

// Reload reads the roles file, the access file and the file of notifications again. New weights and quotas
// apply from the next scheduling cycle on; offers of a removed role are not used,
// but its tasks keep running. New permissions apply to requests that arrive after
// Reload returns. If any file is invalid, Reload returns an error and changes nothing.
func (s *Scheduler) Reload() error {
	if s.cfg.RolesFile == "" && s.security.gate == nil && s.notifier == nil {
		return errors.New("reload: there is neither a roles file nor an access file nor a file of notifications to read again")
	}
	jobs, takeAccess, refused := s.security.readAccessFile()
	targets, takeNotifications, invalid := s.readNotifications()
	p, err := s.loadPolicyWith(jobs, targets)
	if err := errors.Join(refused, invalid, err); err != nil {
		return err
	}
	take := func() {
		takeAccess()
		takeNotifications()
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

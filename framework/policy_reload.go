package framework

import (
	"errors"
	"fmt"

	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/notifier"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/sched/queue"
)

// loadPolicy returns the policy of the configuration with the roles of the roles file as it is
// now. If the file is invalid, the roles of the last valid one stay in effect: a scheduler that
// becomes the leader does not fail because of an edit that a reload rejected.
func (s *Scheduler) loadPolicy() sched.Policy {
	targets := s.notificationTargets()
	roles, err := s.readRoles(targets)
	if err != nil {
		s.cfg.Log.WithError(err).Error("the roles file is invalid; the roles that were last read from it stay in effect")
		roles = *s.roles.Load()
	}
	return s.newPolicy(roles, s.security.jobPermissions(), targets)
}

// notificationTargets returns the targets that the file of notifications permits.
func (s *Scheduler) notificationTargets() notification.AllowedTargets {
	if s.notifier == nil {
		return notification.AllowedTargets{}
	}
	return s.notifier.AllowedTargets()
}

// newPolicy returns the policy of the configuration with these roles, permissions and targets,
// and keeps the roles for a later loadPolicy.
func (s *Scheduler) newPolicy(roles []queue.Role, jobs []admission.RolePermissions, targets notification.AllowedTargets) sched.Policy {
	s.roles.Store(&roles)
	p := s.cfg.Sched.Policy
	p.Roles, p.RolePermissions, p.NotificationTargets = roles, jobs, targets
	return p
}

// readRoles reads the roles file, whose notifications must have permitted targets.
// Without a roles file it returns the roles of the configuration.
func (s *Scheduler) readRoles(targets notification.AllowedTargets) ([]queue.Role, error) {
	if s.cfg.RolesFile == "" {
		return s.cfg.Sched.Policy.Roles, nil
	}
	roles, err := LoadRoles(s.cfg.RolesFile)
	if err != nil {
		return nil, err
	}
	for i := range roles {
		if roles[i].Budget != nil && s.accounting == nil {
			return nil, fmt.Errorf("%s: role %s: a budget needs the accounting, which --accounting none disables", s.cfg.RolesFile, roles[i].Name)
		}
		if err := targets.CheckRules(roles[i].Notify); err != nil {
			return nil, fmt.Errorf("%s: role %s: %w", s.cfg.RolesFile, roles[i].Name, err)
		}
	}
	return roles, nil
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
	roles, err := s.readRoles(targets)
	if err := errors.Join(refused, invalid, err); err != nil {
		return err
	}
	p := s.newPolicy(roles, jobs, targets)
	take := func() {
		takeAccess()
		takeNotifications()
	}
	s.mu.Lock()
	changePolicy := s.changePolicy
	s.mu.Unlock()
	if changePolicy == nil { // a standby reads the roles file again when it becomes the leader
		take()
		return nil
	}
	// The permissions of users and what their jobs may use apply together.
	if err := changePolicy(p, take); err != nil {
		take() // this scheduler no longer leads
	}
	return nil
}

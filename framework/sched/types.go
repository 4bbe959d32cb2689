package sched

import (
	"errors"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
)

// The types of offers and launches, which events and operations carry.
type (
	Offer         = fit.Offer
	Amount        = fit.Amount
	Attribute     = fit.Attribute
	PortRange     = fit.PortRange
	SharedDevice  = fit.SharedDevice
	TaskLaunch    = placement.TaskLaunch
	DeclinedOffer = placement.DeclinedOffer
)

// Policy is what operators configure and may change at run time.
type Policy struct {
	placement.Policy
	// Permissions are what jobs may use of their agents. RolePermissions replace them for jobs of some roles and of the
	// roles below.
	Permissions     admission.HostPermissions
	RolePermissions []admission.RolePermissions
}

// Validate returns all errors of the policy.
func (p Policy) Validate() error {
	return errors.Join(p.Policy.Validate(), p.Permissions.Validate())
}

package sched

import "mesos-gpu/framework/sched/fit"

// What offers hold is package fit's to say.
type (
	Offer        = fit.Offer
	Amount       = fit.Amount
	Attribute    = fit.Attribute
	PortRange    = fit.PortRange
	SharedDevice = fit.SharedDevice
)

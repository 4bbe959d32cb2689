package sched

import (
	"cmp"
	"errors"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// defaultFitPolicy keeps room for what usually runs. As long as nobody knows what
// does, it packs agents full.
const defaultFitPolicy = "headroom"

// setDefaults keeps room for the usual tasks, and treats all roles alike.
func (p *Policy) setDefaults() {
	if p.Fit.Name == "" {
		p.Fit.Name = defaultFitPolicy
	}
	if p.Overhead == (Amount{}) {
		p.Overhead = DefaultOverhead()
	}
	if p.RefuseSoon <= 0 {
		p.RefuseSoon = 5 * time.Second
	}
	if p.RefuseLong <= 0 {
		p.RefuseLong = time.Hour
	}
}

// DefaultOverhead is what an executor takes beside its task.
func DefaultOverhead() Amount { return Amount{CPUs: 0.1, MemMiB: 32} }

// taskAmount is what one task takes, its executor's part included.
func (p *Policy) taskAmount(s *job.Spec) Amount {
	return Amount{CPUs: s.CPUs, MemMiB: s.MemMiB, DiskMiB: s.DiskMiB}.Plus(p.Overhead)
}

// ValidatePolicy says what is wrong with a policy.
func ValidatePolicy(p Policy) error {
	_, err := fit.ParsePolicy(cmp.Or(p.Fit.Name, defaultFitPolicy))
	return errors.Join(err, validateRoles(p.Roles), p.Permissions.validatePaths())
}

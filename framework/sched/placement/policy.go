package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
)

// Policy determines which agents tasks prefer, how roles compete, and how long offers are refused.
type Policy struct {
	// Fit ranks the agents.
	Fit fit.PlacementPolicy
	// Reclaim is what reclaim gives roles. "" means ReclaimDeserved.
	Reclaim ReclaimPolicy
	// Roles are the roles in which the scheduler runs jobs; the first one is the default.
	Roles []queue.Role
	// Overhead is the usage of each task's executor.
	Overhead fit.Amount
}

// ReclaimPolicy is what roles take back from others that hold more.
type ReclaimPolicy string

const (
	// ReclaimDeserved: a role gets what it deserves and demands. Shares of the rest by weight end no task.
	ReclaimDeserved ReclaimPolicy = "deserved"
	// ReclaimEntitled: a role gets what it is entitled to: what it deserves and, by weight, its part of the rest.
	ReclaimEntitled ReclaimPolicy = "entitled"
)

const (
	// RefuseSoon is how long an offer is refused that a waiting job could use with more resources on the same agent.
	RefuseSoon = 5 * time.Second
	// RefuseLong is how long an offer is refused that no waiting job can use.
	RefuseLong = time.Hour
	// RefuseHeld is how long an offer is refused that was held until now. With the master's allocation interval (1 s) it
	// must be less than offers are held.
	RefuseHeld = time.Second
)

// defaultFitPolicy keeps room for the tasks that usually run. Without records of those it fills agents one by one.
const defaultFitPolicy = "headroom"

// SetDefaults replaces zero fields by their defaults.
func (p *Policy) SetDefaults() {
	if p.Fit.Name == "" {
		p.Fit.Name = defaultFitPolicy
	}
	if p.Overhead == (fit.Amount{}) {
		p.Overhead = DefaultOverhead()
	}
}

// DefaultOverhead returns what an executor uses besides its task.
func DefaultOverhead() fit.Amount { return fit.Amount{CPUs: 0.1, MemMiB: 32} }

// Validate returns all errors of the policy.
func (p *Policy) Validate() error {
	var reclaim error
	if p.Reclaim != "" && p.Reclaim != ReclaimDeserved && p.Reclaim != ReclaimEntitled {
		reclaim = fmt.Errorf("reclaim %q is not one of %s, %s", p.Reclaim, ReclaimDeserved, ReclaimEntitled)
	}
	return errors.Join(reclaim, fit.ValidatePolicyName(cmp.Or(p.Fit.Name, defaultFitPolicy), fit.PolicyNames()), queue.ValidateRoles(p.Roles))
}

// PursuesEntitlements reports whether reclaim gives roles what they are entitled to.
func (p *Policy) PursuesEntitlements() bool { return p.Reclaim == ReclaimEntitled && len(p.Roles) > 1 }

// Reclaims reports whether roles take GPUs, or CPUs and memory, back from each other.
func (p *Policy) Reclaims() bool {
	return p.PursuesEntitlements() || slices.ContainsFunc(p.Roles, func(r queue.Role) bool { return len(r.Deserved) > 0 || len(r.DeservedHost) > 0 })
}

// DefaultRole returns the role of jobs that name none.
func (p *Policy) DefaultRole() string {
	if len(p.Roles) == 0 {
		return ""
	}
	return p.Roles[0].Name
}

// isStrict reports whether backfill is forbidden in a role.
func (p *Policy) isStrict(role string) bool {
	return slices.ContainsFunc(p.Roles, func(r queue.Role) bool { return r.Name == role && r.Strict })
}

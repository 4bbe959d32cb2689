// Package alloc decides which offers are sent to which framework. It is one
// pure function of the agents, the frameworks, their current resources and
// their refusals. It has no state, reads no clock and does not send offers.
package alloc

import (
	"cmp"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/minimesos/offers"
	"mesos-gpu/internal/minimesos/resource"
)

// AllocatableAgent is an agent whose resources can be offered.
type AllocatableAgent struct {
	ID    string
	Total []mesos.Resource
	// Free is neither offered nor in use, and not allocated to a role.
	Free []mesos.Resource
}

// Contender is a connected framework.
type Contender struct {
	ID string
	// Roles are the roles that receive offers, without the suppressed ones.
	Roles []string
	// GPUs means that the framework may receive offers of agents with GPUs.
	GPUs bool
	// Least contains each role's minimum offer. The default minimum is 0.01
	// cpus or 32 MiB.
	Least map[string]mesos.OfferFilters
}

// RoleClaim identifies a framework in one of its roles.
type RoleClaim struct{ Framework, Role string }

// ClaimSlot identifies a claim on one agent. Filters refer to it.
type ClaimSlot struct {
	RoleClaim
	Agent string
}

// RoleHolding is resources that a role uses or has been offered.
type RoleHolding struct {
	Role      string
	Resources []mesos.Resource
}

// OfferFilters are the filters that frameworks have set when they refused offers.
type OfferFilters = offers.Filters[ClaimSlot, []mesos.Resource]

// NewFilters returns OfferFilters without filters.
func NewFilters() *OfferFilters { return offers.NewFilters[ClaimSlot](resource.Contains) }

// AllocationInput is the complete input of an allocation.
type AllocationInput struct {
	Now        time.Time
	Agents     []AllocatableAgent
	Frameworks []Contender
	Held       []RoleHolding
	Filters    *OfferFilters
	// Total are the resources of all agents, also of those that are not in
	// Agents. The default is the sum of Agents.
	Total []mesos.Resource
	// Weights are the weights of roles. The default is 1.
	Weights map[string]float64
	// Turns is the sequence number of each claim's latest offer. Of claims with
	// equal shares, the one with the lowest number comes first.
	Turns map[RoleClaim]uint64
	// Limits are the quota limits, by role and resource name.
	Limits map[string]map[string]float64
}

// AllocatedOffer is one offer. Its resources are not yet marked as allocated.
type AllocatedOffer struct {
	ClaimSlot
	Resources []mesos.Resource
}

// AllocateOffers gives each agent's free resources to the first claim that
// accepts them. The resources that this claim cannot use go to the next one. As
// in Mesos, the role with the least weighted dominant share comes first. The
// frameworks of one role take turns; unlike in Mesos, the resources that they
// already have do not count.
func AllocateOffers(in AllocationInput) []AllocatedOffer {
	usage := roleUsage{}
	for _, h := range in.Held {
		usage.addResources(h.Role, h.Resources)
	}
	turns, turn := map[RoleClaim]uint64{}, uint64(0)
	for claim, latest := range in.Turns {
		turns[claim], turn = latest, max(turn, latest)
	}
	frameworks := map[string]Contender{}
	var claims []RoleClaim
	for _, f := range in.Frameworks {
		frameworks[f.ID] = f
		for _, role := range f.Roles {
			claims = append(claims, RoleClaim{f.ID, role})
		}
	}
	total := in.Total
	if total == nil {
		for _, agent := range in.Agents {
			total = append(total, agent.Total...)
		}
	}
	shares := newDominantShares(usage, total, in.Weights)
	var granted []AllocatedOffer
	for _, agent := range slices.SortedFunc(slices.Values(in.Agents), func(a, b AllocatableAgent) int { return cmp.Compare(a.ID, b.ID) }) {
		hasGPUs := resource.SumScalar(agent.Total, "gpus") > 0
		slices.SortFunc(claims, func(a, b RoleClaim) int {
			return cmp.Or(shares.compareRoles(a.Role, b.Role), cmp.Compare(turns[a], turns[b]), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Framework, b.Framework))
		})
		for _, claim := range claims {
			f, slot := frameworks[claim.Framework], ClaimSlot{claim, agent.ID}
			if hasGPUs && !f.GPUs {
				continue
			}
			part := usage.cutToLimits(in.Limits[claim.Role], claim.Role, resource.UsableBy(agent.Free, claim.Role))
			if !meetsMinimum(part, f.Least, claim.Role) || in.Filters.Refuses(slot, part, in.Now) {
				continue
			}
			granted = append(granted, AllocatedOffer{slot, part})
			agent.Free = resource.Subtract(agent.Free, part)
			usage.addResources(claim.Role, part)
			turn++
			turns[claim] = turn
		}
	}
	return granted
}

// meetsMinimum reports whether part contains all the quantities of one of the
// role's minimum offers.
func meetsMinimum(part []mesos.Resource, least map[string]mesos.OfferFilters, role string) bool {
	filters, own := least[role]
	if wanted := filters.GetMinAllocatableResources(); own && wanted != nil {
		if len(wanted.Quantities) == 0 {
			return len(part) > 0
		}
		return slices.ContainsFunc(wanted.Quantities, func(q mesos.OfferFilters_ResourceQuantities) bool {
			for name, value := range q.Quantities {
				if resource.SumScalar(part, name) < value.Value {
					return false
				}
			}
			return len(part) > 0
		})
	}
	return resource.SumScalar(part, "cpus") >= offers.MinCPUs || resource.SumScalar(part, "mem") >= offers.MinMemMiB
}

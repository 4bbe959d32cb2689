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

// ClaimHolding is the resources that a claim uses or has been offered.
type ClaimHolding struct {
	RoleClaim
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
	Held       []ClaimHolding
	Filters    *OfferFilters
	// Turns is the sequence number of each claim's latest offer. Among equal
	// claims the one with the lowest number comes first.
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
// accepts them. The resources that this claim cannot use go to the next one.
func AllocateOffers(in AllocationInput) []AllocatedOffer {
	shares := newShares(in)
	frameworks := map[string]Contender{}
	var claims []RoleClaim
	for _, f := range in.Frameworks {
		frameworks[f.ID] = f
		for _, role := range f.Roles {
			claims = append(claims, RoleClaim{f.ID, role})
		}
	}
	var granted []AllocatedOffer
	for _, agent := range slices.SortedFunc(slices.Values(in.Agents), func(a, b AllocatableAgent) int { return cmp.Compare(a.ID, b.ID) }) {
		hasGPUs := resource.SumScalar(agent.Total, "gpus") > 0
		slices.SortFunc(claims, shares.compareClaims(hasGPUs))
		for _, claim := range claims {
			f, slot := frameworks[claim.Framework], ClaimSlot{claim, agent.ID}
			if hasGPUs && !f.GPUs {
				continue
			}
			part := shares.cutToLimits(in.Limits[claim.Role], claim.Role, resource.UsableBy(agent.Free, claim.Role))
			if !meetsMinimum(part, f.Least, claim.Role) || in.Filters.Refuses(slot, part, in.Now) {
				continue
			}
			granted = append(granted, AllocatedOffer{slot, part})
			agent.Free = resource.Subtract(agent.Free, part)
			shares.addHolding(claim, part)
			shares.next++
			shares.turns[claim] = shares.next
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

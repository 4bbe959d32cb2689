// Package alloc decides who is offered what: one pure function from agents,
// frameworks, what they hold and what they refused to offers. It keeps no
// state and reads no clock, and it does not know how offers are sent.
package alloc

import (
	"cmp"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/master/amount"
)

// AllocatableAgent is one agent that may be offered.
type AllocatableAgent struct {
	ID    string
	Total []mesos.Resource
	// Free is neither offered nor in use, and not allocated to a role.
	Free []mesos.Resource
}

// Contender is one connected framework.
type Contender struct {
	ID string
	// Roles are those it wants offers for, the suppressed ones left out.
	Roles []string
	// GPUs says that it may be offered agents that have GPUs.
	GPUs bool
	// Least holds the role's own least offers; a role without one wants
	// 0.01 cpus or 32 MiB.
	Least map[string]mesos.OfferFilters
}

// RoleClaim is a framework's place in the queue, as one role.
type RoleClaim struct{ Framework, Role string }

// ClaimSlot is a claim's place on one agent, which refusals are for.
type ClaimSlot struct {
	RoleClaim
	Agent string
}

// ClaimHolding is what a claim has been offered or uses.
type ClaimHolding struct {
	RoleClaim
	Resources []mesos.Resource
}

// OfferFilter keeps a slot from being offered no more than Resources until then.
type OfferFilter struct {
	Resources []mesos.Resource
	Until     time.Time
}

// AllocationInput is all that an allocation depends on.
type AllocationInput struct {
	Now        time.Time
	Agents     []AllocatableAgent
	Frameworks []Contender
	Held       []ClaimHolding
	Refusals   map[ClaimSlot][]OfferFilter
	// Turns numbers a claim's latest offer; who waited longest goes first
	// among equals.
	Turns map[RoleClaim]uint64
	// Limits are the most that a role may hold of a scalar, by role and name.
	Limits map[string]map[string]float64
}

// AllocatedOffer is one decision: these resources, not yet marked as allocated.
type AllocatedOffer struct {
	ClaimSlot
	Resources []mesos.Resource
}

// AllocateOffers gives each agent's free resources to the claim that comes first and
// will have them, and what that claim may not have to the next.
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
	var offers []AllocatedOffer
	for _, agent := range slices.SortedFunc(slices.Values(in.Agents), func(a, b AllocatableAgent) int { return cmp.Compare(a.ID, b.ID) }) {
		hasGPUs := amount.SumScalar(agent.Total, "gpus") > 0
		slices.SortFunc(claims, shares.compareClaims(hasGPUs))
		for _, claim := range claims {
			f, slot := frameworks[claim.Framework], ClaimSlot{claim, agent.ID}
			if hasGPUs && !f.GPUs {
				continue
			}
			part := shares.cutToLimits(in.Limits[claim.Role], claim.Role, amount.UsableBy(agent.Free, claim.Role))
			if !meetsMinimum(part, f.Least, claim.Role) || isRefused(in.Refusals[slot], part, in.Now) {
				continue
			}
			offers = append(offers, AllocatedOffer{slot, part})
			agent.Free = amount.Subtract(agent.Free, part)
			shares.addHolding(claim, part)
			shares.next++
			shares.turns[claim] = shares.next
		}
	}
	return offers
}

// isRefused reports whether a refusal that still counts covers the whole part:
// an agent that grew since is offered again.
func isRefused(refusals []OfferFilter, part []mesos.Resource, now time.Time) bool {
	return slices.ContainsFunc(refusals, func(r OfferFilter) bool {
		return now.Before(r.Until) && amount.Contains(r.Resources, part)
	})
}

// meetsMinimum reports whether part is as much as the role wants at least: all the
// quantities of one of its alternatives.
func meetsMinimum(part []mesos.Resource, least map[string]mesos.OfferFilters, role string) bool {
	filters, own := least[role]
	if wanted := filters.GetMinAllocatableResources(); own && wanted != nil {
		if len(wanted.Quantities) == 0 {
			return len(part) > 0
		}
		return slices.ContainsFunc(wanted.Quantities, func(q mesos.OfferFilters_ResourceQuantities) bool {
			for name, value := range q.Quantities {
				if amount.SumScalar(part, name) < value.Value {
					return false
				}
			}
			return len(part) > 0
		})
	}
	return amount.SumScalar(part, "cpus") >= 0.01 || amount.SumScalar(part, "mem") >= 32
}

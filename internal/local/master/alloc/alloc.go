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

// Agent is one agent that may be offered.
type Agent struct {
	ID    string
	Total []mesos.Resource
	// Free is neither offered nor in use, and not allocated to a role.
	Free []mesos.Resource
}

// Framework is one connected framework.
type Framework struct {
	ID string
	// Roles are those it wants offers for, the suppressed ones left out.
	Roles []string
	// GPUs says that it may be offered agents that have GPUs.
	GPUs bool
	// Least holds the role's own least offers; a role without one wants
	// 0.01 cpus or 32 MiB.
	Least map[string]mesos.OfferFilters
}

// Claim is a framework's place in the queue, as one role.
type Claim struct{ Framework, Role string }

// Slot is a claim's place on one agent, which refusals are for.
type Slot struct {
	Claim
	Agent string
}

// Holding is what a claim has been offered or uses.
type Holding struct {
	Claim
	Resources []mesos.Resource
}

// Refusal keeps a slot from being offered no more than Resources until then.
type Refusal struct {
	Resources []mesos.Resource
	Until     time.Time
}

// Input is all that an allocation depends on.
type Input struct {
	Now        time.Time
	Agents     []Agent
	Frameworks []Framework
	Held       []Holding
	Refusals   map[Slot][]Refusal
	// Turns numbers a claim's latest offer; who waited longest goes first
	// among equals.
	Turns map[Claim]uint64
	// Limits are the most that a role may hold of a scalar, by role and name.
	Limits map[string]map[string]float64
}

// Offer is one decision: these resources, not yet marked as allocated.
type Offer struct {
	Slot
	Resources []mesos.Resource
}

// Offers gives each agent's free resources to the claim that comes first and
// will have them, and what that claim may not have to the next.
func Offers(in Input) []Offer {
	shares := newShares(in)
	frameworks := map[string]Framework{}
	var claims []Claim
	for _, f := range in.Frameworks {
		frameworks[f.ID] = f
		for _, role := range f.Roles {
			claims = append(claims, Claim{f.ID, role})
		}
	}
	var offers []Offer
	for _, agent := range slices.SortedFunc(slices.Values(in.Agents), func(a, b Agent) int { return cmp.Compare(a.ID, b.ID) }) {
		hasGPUs := amount.Scalar(agent.Total, "gpus") > 0
		slices.SortFunc(claims, shares.order(hasGPUs))
		for _, claim := range claims {
			f, slot := frameworks[claim.Framework], Slot{claim, agent.ID}
			if hasGPUs && !f.GPUs {
				continue
			}
			part := shares.within(in.Limits[claim.Role], claim.Role, amount.For(agent.Free, claim.Role))
			if !worth(part, f.Least, claim.Role) || refused(in.Refusals[slot], part, in.Now) {
				continue
			}
			offers = append(offers, Offer{slot, part})
			agent.Free = amount.Subtract(agent.Free, part)
			shares.hold(claim, part)
			shares.next++
			shares.turns[claim] = shares.next
		}
	}
	return offers
}

// refused reports whether a refusal that still counts covers the whole part:
// an agent that grew since is offered again.
func refused(refusals []Refusal, part []mesos.Resource, now time.Time) bool {
	return slices.ContainsFunc(refusals, func(r Refusal) bool {
		return now.Before(r.Until) && amount.Contains(r.Resources, part)
	})
}

// worth reports whether part is as much as the role wants at least: all the
// quantities of one of its alternatives.
func worth(part []mesos.Resource, least map[string]mesos.OfferFilters, role string) bool {
	filters, own := least[role]
	if wanted := filters.GetMinAllocatableResources(); own && wanted != nil {
		if len(wanted.Quantities) == 0 {
			return len(part) > 0
		}
		return slices.ContainsFunc(wanted.Quantities, func(q mesos.OfferFilters_ResourceQuantities) bool {
			for name, value := range q.Quantities {
				if amount.Scalar(part, name) < value.Value {
					return false
				}
			}
			return len(part) > 0
		})
	}
	return amount.Scalar(part, "cpus") >= 0.01 || amount.Scalar(part, "mem") >= 32
}

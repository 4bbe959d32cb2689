package master

import (
	"maps"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/local/master/alloc"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/resource"
)

// outstandingOffer is an offer that has been sent and not answered.
type outstandingOffer struct {
	slot alloc.ClaimSlot
	mesos.Offer
}

// allocateAll offers all free resources.
func (m *EmbeddedMaster) allocateAll() { m.allocateAgents(func(string) bool { return true }) }

// allocateAgents offers the free resources of the selected agents. It returns
// early if no framework is connected, as during the registration of agents at
// startup.
func (m *EmbeddedMaster) allocateAgents(these func(agent string) bool) {
	now := time.Now()
	m.filters.RemoveExpired(now)
	in := alloc.AllocationInput{Now: now, Filters: m.filters, Turns: m.turns, Limits: m.roleLimits(), Weights: m.weights}
	for _, f := range sortedValues(m.frameworks) {
		if f.stream != nil {
			in.Frameworks = append(in.Frameworks, f.allocatorView())
		}
	}
	if len(in.Frameworks) == 0 {
		return
	}
	in.Held = m.heldByRole()
	offered := m.offeredByAgent()
	for _, a := range sortedValues(m.agents) {
		in.Total = append(in.Total, a.total...)
		if id := a.id.Value; these(id) && m.adminState(id).drain == nil {
			in.Agents = append(in.Agents, alloc.AllocatableAgent{ID: id, Total: a.total, Free: a.freeResources(offered[id])})
		}
	}
	bundles := map[string][]mesos.Offer{}
	for _, granted := range alloc.AllocateOffers(in) {
		f := m.frameworks[granted.Framework]
		o := m.newOffer(f, granted)
		m.cfg.Log.WithFields(logrus.Fields{
			"offer": o.ID.Value, "role": granted.Role, "agent": granted.Agent, "resources": mesos.Resources(granted.Resources),
		}).Debug("offered")
		bundles[f.id()] = append(bundles[f.id()], encodeOffer(f, o.Offer))
	}
	for id, list := range bundles {
		m.frameworks[id].sendEvent(events.NewOffers(list...))
	}
	m.offerInverse(now)
}

// offeredByAgent returns the offered resources of each agent.
func (m *EmbeddedMaster) offeredByAgent() map[string][][]mesos.Resource {
	all := map[string][][]mesos.Resource{}
	for _, o := range m.offers {
		all[o.slot.Agent] = append(all[o.slot.Agent], o.Resources)
	}
	return all
}

// freeResources returns the agent's resources that are neither used nor
// offered.
func (a *registeredAgent) freeResources(offered [][]mesos.Resource) []mesos.Resource {
	taken := append(a.usedResources(""), offered...)
	if len(taken) == 0 {
		return a.total // read only
	}
	return resource.Subtract(a.total, resource.Unallocate(resource.Sum(taken...)))
}

// heldByRole returns the resources that are used or have been offered.
func (m *EmbeddedMaster) heldByRole() []alloc.RoleHolding {
	var out []alloc.RoleHolding
	for _, a := range m.agents {
		for _, rs := range a.usedResources("") {
			if len(rs) > 0 {
				out = append(out, alloc.RoleHolding{Role: rs[0].GetAllocationInfo().GetRole(), Resources: rs})
			}
		}
	}
	for _, o := range m.offers {
		out = append(out, alloc.RoleHolding{Role: o.slot.Role, Resources: o.Resources})
	}
	return out
}

func (m *EmbeddedMaster) newOffer(f *frameworkState, granted alloc.AllocatedOffer) *outstandingOffer {
	a, role := m.agents[granted.Agent], granted.Role
	o := &outstandingOffer{slot: granted.ClaimSlot, Offer: mesos.Offer{
		ID:             mesos.OfferID{Value: m.newID("O", &m.nextID.offer)},
		FrameworkID:    *f.info.ID,
		AgentID:        a.id,
		Hostname:       a.info.Hostname,
		URL:            agentURL(a.info),
		Domain:         a.info.Domain,
		Attributes:     a.info.Attributes,
		Resources:      resource.Allocate(granted.Resources, role),
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
		Unavailability: m.plannedWindow(a),
	}}
	for _, key := range a.sortedKeys() {
		if key.framework == f.id() && !a.held[key].command {
			o.ExecutorIDs = append(o.ExecutorIDs, mesos.ExecutorID{Value: key.executor})
		}
	}
	m.offers[o.ID.Value] = o
	m.turn++
	m.turns[granted.RoleClaim] = m.turn
	return o
}

// encodeOffer converts an offer to the format that the framework's capabilities
// require.
func encodeOffer(f *frameworkState, o mesos.Offer) mesos.Offer {
	if !f.hasCapability(mesos.FrameworkInfo_Capability_MULTI_ROLE) {
		o.AllocationInfo = nil
		o.Resources = resource.Unallocate(o.Resources)
	}
	if f.hasCapability(mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT) {
		o.Resources = resource.Refined(o.Resources)
	} else {
		o.Resources = resource.Plain(o.Resources)
	}
	return o
}

// dropOffers removes a framework's offers, inverse offers and filters without
// sending it an event.
func (m *EmbeddedMaster) dropOffers(f *frameworkState) {
	maps.DeleteFunc(m.offers, func(_ string, o *outstandingOffer) bool { return o.slot.Framework == f.id() })
	maps.DeleteFunc(m.inverse, func(_ string, o *inverseOffer) bool { return o.framework == f.id() })
	m.forgetRefusals(f, nil)
}

// rescindOffers removes the offers that which selects and sends a RESCIND for each.
func (m *EmbeddedMaster) rescindOffers(which func(*outstandingOffer) bool) {
	for _, o := range sortedValues(m.offers) {
		if which(o) {
			delete(m.offers, o.ID.Value)
			m.frameworks[o.slot.Framework].sendEvent(events.NewRescind(o.ID))
		}
	}
}

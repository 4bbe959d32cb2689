package master

import (
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/master/alloc"
	"mesos-gpu/internal/local/master/amount"
)

// offer is one that was sent and not yet answered.
type offer struct {
	slot alloc.Slot
	mesos.Offer
}

// allocate offers what is free.
func (m *Master) allocate() { m.allocateOf(func(string) bool { return true }) }

// allocateOf offers what is free of those agents. It does nothing for
// frameworks that are not there, as at the start, when one agent after the
// other registers.
func (m *Master) allocateOf(these func(agent string) bool) {
	now := time.Now()
	for slot, refusals := range m.refusals {
		m.refusals[slot] = slices.DeleteFunc(refusals, func(r alloc.Refusal) bool { return !now.Before(r.Until) })
		if len(m.refusals[slot]) == 0 {
			delete(m.refusals, slot)
		}
	}
	in := alloc.Input{Now: now, Refusals: m.refusals, Turns: m.turns, Limits: m.limits()}
	for _, f := range sorted(m.frameworks) {
		if f.stream != nil {
			in.Frameworks = append(in.Frameworks, f.contender())
		}
	}
	if len(in.Frameworks) == 0 {
		return
	}
	in.Held = m.held()
	offered := m.outstanding()
	for _, a := range sorted(m.agents) {
		if m.standing(a.id.Value).deactivated {
			continue
		}
		one := alloc.Agent{ID: a.id.Value, Total: a.total}
		if these(one.ID) {
			one.Free = a.free(offered[one.ID])
		}
		in.Agents = append(in.Agents, one) // the others count for shares
	}
	bundles := map[string][]mesos.Offer{}
	for _, granted := range alloc.Offers(in) {
		f := m.frameworks[granted.Framework]
		o := m.newOffer(f, granted)
		bundles[f.id()] = append(bundles[f.id()], sent(f, o.Offer))
	}
	for id, offers := range bundles {
		m.frameworks[id].send(&scheduler.Event{Type: scheduler.Event_OFFERS, Offers: &scheduler.Event_Offers{Offers: offers}})
	}
	m.offerInverse(now)
}

// outstanding is what stands offered of each agent.
func (m *Master) outstanding() map[string][][]mesos.Resource {
	all := map[string][][]mesos.Resource{}
	for _, o := range m.offers {
		all[o.slot.Agent] = append(all[o.slot.Agent], o.Resources)
	}
	return all
}

// free is what of an agent is neither in use nor offered.
func (a *agent) free(offered [][]mesos.Resource) []mesos.Resource {
	taken := append(a.usedResources(""), offered...)
	if len(taken) == 0 {
		return a.total // which nobody writes to
	}
	return amount.Subtract(a.total, amount.Unallocate(amount.Sum(taken...)))
}

// held is what each claim uses or was offered.
func (m *Master) held() []alloc.Holding {
	var out []alloc.Holding
	for _, a := range m.agents {
		a.used(func(framework string, rs []mesos.Resource) {
			if len(rs) > 0 {
				claim := alloc.Claim{Framework: framework, Role: rs[0].GetAllocationInfo().GetRole()}
				out = append(out, alloc.Holding{Claim: claim, Resources: rs})
			}
		})
	}
	for _, o := range m.offers {
		out = append(out, alloc.Holding{Claim: o.slot.Claim, Resources: o.Resources})
	}
	return out
}

func (m *Master) newOffer(f *framework, granted alloc.Offer) *offer {
	a, role := m.agents[granted.Agent], granted.Role
	o := &offer{slot: granted.Slot, Offer: mesos.Offer{
		ID:             mesos.OfferID{Value: m.newID("O", &m.nextID.offer)},
		FrameworkID:    *f.info.ID,
		AgentID:        a.id,
		Hostname:       a.info.Hostname,
		URL:            agentURL(a.info),
		Domain:         a.info.Domain,
		Attributes:     a.info.Attributes,
		Resources:      amount.Allocate(granted.Resources, role),
		AllocationInfo: &mesos.Resource_AllocationInfo{Role: &role},
		Unavailability: m.unavailability(a),
	}}
	for _, key := range a.keys() {
		if key.framework == f.id() && !a.held[key].command {
			o.ExecutorIDs = append(o.ExecutorIDs, mesos.ExecutorID{Value: key.executor})
		}
	}
	m.offers[o.ID.Value] = o
	m.turn++
	m.turns[granted.Claim] = m.turn
	return o
}

// sent is an offer in the form that the framework's capabilities ask for.
func sent(f *framework, o mesos.Offer) mesos.Offer {
	if !f.has(mesos.FrameworkInfo_Capability_MULTI_ROLE) {
		o.AllocationInfo = nil
		o.Resources = amount.Unallocate(o.Resources)
	}
	if f.has(mesos.FrameworkInfo_Capability_RESERVATION_REFINEMENT) {
		o.Resources = amount.Refined(o.Resources)
	} else {
		o.Resources = amount.Plain(o.Resources)
	}
	return o
}

// dropOffers forgets a framework's offers, of one role or all. A framework
// that is going away need not hear of it.
func (m *Master) dropOffers(f *framework, role string) {
	for id, o := range m.offers {
		if o.slot.Framework == f.id() && (role == "" || role == o.slot.Role) {
			delete(m.offers, id)
		}
	}
}

// rescind takes back the offers that which picks and tells their frameworks.
func (m *Master) rescind(which func(*offer) bool) {
	for _, o := range sorted(m.offers) {
		if which(o) {
			delete(m.offers, o.ID.Value)
			m.frameworks[o.slot.Framework].send(rescindEvent(o.ID))
		}
	}
}

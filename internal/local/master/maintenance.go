package master

import (
	"maps"
	"net/http"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/events"
)

// inverseOffer requests one agent back from one framework.
type inverseOffer struct {
	id               string
	framework, agent string
}

type inverseKey struct{ framework, agent string }

// planMaintenance replaces the maintenance schedule. It rescinds the offers of
// agents whose window changes and offers them again with the new unavailability.
func (m *EmbeddedMaster) planMaintenance(call *operator.Call_UpdateMaintenanceSchedule) error {
	for _, w := range call.GetSchedule().Windows {
		for _, machine := range w.MachineIDs {
			if machine.GetHostname() == "" && machine.GetIP() == "" {
				return mesosapi.Errorf(http.StatusBadRequest, "a machine of the schedule has neither hostname nor ip")
			}
		}
	}
	before := map[string]*mesos.Unavailability{}
	for id, a := range m.agents {
		before[id] = m.plannedWindow(a)
	}
	m.schedule = call.GetSchedule()
	changed := func(agent string) bool {
		a := m.agents[agent]
		return a == nil || !before[agent].Equal(m.plannedWindow(a))
	}
	maps.DeleteFunc(m.answered, func(key inverseKey, _ time.Time) bool { return changed(key.agent) })
	m.rescindInverse(func(o *inverseOffer) bool { return changed(o.agent) })
	m.rescindOffers(func(o *outstandingOffer) bool { return changed(o.slot.Agent) })
	m.allocateAll()
	return nil
}

// plannedWindow returns the maintenance window of an agent, if any.
func (m *EmbeddedMaster) plannedWindow(a *registeredAgent) *mesos.Unavailability {
	ip := ipOf(a.info.Hostname)
	for _, w := range m.schedule.Windows {
		for _, machine := range w.MachineIDs {
			if machine.GetHostname() == a.info.Hostname || ip != nil && machine.GetHostname() == "" && machine.GetIP() == *ip {
				window := w.Unavailability
				return &window
			}
		}
	}
	return nil
}

// offerInverse sends inverse offers to frameworks that use agents with a
// maintenance window.
func (m *EmbeddedMaster) offerInverse(now time.Time) {
	if len(m.schedule.Windows) == 0 {
		return
	}
	asked := map[inverseKey]bool{}
	for _, o := range m.inverse {
		asked[inverseKey{o.framework, o.agent}] = true
	}
	for _, a := range sortedValues(m.agents) {
		window := m.plannedWindow(a)
		if window == nil {
			continue
		}
		for _, f := range sortedValues(m.frameworks) {
			key := inverseKey{f.id(), a.id.Value}
			if f.stream == nil || asked[key] || now.Before(m.answered[key]) || len(a.usedResources(f.id())) == 0 {
				continue
			}
			o := &inverseOffer{id: m.newID("O", &m.nextID.offer), framework: f.id(), agent: a.id.Value}
			m.inverse[o.id] = o
			f.sendEvent(events.NewInverseOffer(mesos.InverseOffer{
				OfferID: mesos.OfferID{Value: o.id}, URL: agentURL(a.info), FrameworkID: *f.info.ID, AgentID: &a.id, Unavailability: *window,
			}))
		}
	}
}

func (m *EmbeddedMaster) answerInverse(f *frameworkState, ids []mesos.OfferID, filters *mesos.Filters) {
	for _, id := range ids {
		o := m.inverse[id.Value]
		if o == nil || o.framework != f.id() {
			continue // rescinded or answered before
		}
		delete(m.inverse, o.id)
		wait := max(time.Duration(filters.GetRefuseSeconds()*float64(time.Second)), m.cfg.AllocationInterval)
		m.answered[inverseKey{o.framework, o.agent}] = time.Now().Add(wait)
	}
}

// rescindInverse drops inverse offers and sends their frameworks a rescind.
func (m *EmbeddedMaster) rescindInverse(which func(*inverseOffer) bool) {
	for _, o := range sortedValues(m.inverse) {
		if which(o) {
			delete(m.inverse, o.id)
			m.frameworks[o.framework].sendEvent(events.NewRescindInverse(mesos.OfferID{Value: o.id}))
		}
	}
}

package master

import (
	"maps"
	"net/http"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/allocator"
	"github.com/mesos/mesos-go/api/v1/lib/maintenance"
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

// inverseAnswer is a framework's latest response for an agent. No inverse offer
// is sent before its filter has expired.
type inverseAnswer struct {
	accepted  bool
	at, until time.Time
}

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
	maps.DeleteFunc(m.answers, func(key inverseKey, _ inverseAnswer) bool { return changed(key.agent) })
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
			if f.stream == nil || asked[key] || now.Before(m.answers[key].until) || len(a.usedResources(f.id())) == 0 {
				continue
			}
			o := &inverseOffer{id: m.newID("O", &m.nextID.offer), framework: f.id(), agent: a.id.Value}
			m.inverse[o.id] = o
			f.sendEvent(events.InverseOffer(mesos.InverseOffer{
				OfferID: mesos.OfferID{Value: o.id}, URL: agentURL(a.info), FrameworkID: *f.info.ID, AgentID: &a.id, Unavailability: *window,
			}))
		}
	}
}

func (m *EmbeddedMaster) answerInverse(f *frameworkState, ids []mesos.OfferID, accepted bool, filters *mesos.Filters) {
	now := time.Now()
	for _, id := range ids {
		o := m.inverse[id.Value]
		if o == nil || o.framework != f.id() {
			continue // rescinded or answered before
		}
		delete(m.inverse, o.id)
		wait := max(time.Duration(filters.GetRefuseSeconds()*float64(time.Second)), m.cfg.AllocationInterval)
		m.answers[inverseKey{o.framework, o.agent}] = inverseAnswer{accepted, now, now.Add(wait)}
	}
}

// dropInverse removes inverse offers without a rescind, for frameworks that are
// disconnecting.
func (m *EmbeddedMaster) dropInverse(which func(*inverseOffer) bool) {
	maps.DeleteFunc(m.inverse, func(_ string, o *inverseOffer) bool { return which(o) })
}

// rescindInverse drops inverse offers and sends their frameworks a rescind.
func (m *EmbeddedMaster) rescindInverse(which func(*inverseOffer) bool) {
	for _, o := range sortedValues(m.inverse) {
		if which(o) {
			delete(m.inverse, o.id)
			m.frameworks[o.framework].sendEvent(events.RescindInverse(mesos.OfferID{Value: o.id}))
		}
	}
}

// describeMaintenance returns the maintenance status with the frameworks'
// responses.
func (m *EmbeddedMaster) describeMaintenance() *operator.Response_GetMaintenanceStatus {
	out := &operator.Response_GetMaintenanceStatus{}
	for _, a := range sortedValues(m.agents) {
		if m.plannedWindow(a) == nil {
			continue
		}
		hostname := a.info.Hostname
		machine := maintenance.ClusterStatus_DrainingMachine{ID: mesos.MachineID{Hostname: &hostname, IP: ipOf(hostname)}}
		for _, f := range sortedValues(m.frameworks) {
			answer, answered := m.answers[inverseKey{f.id(), a.id.Value}]
			if !answered {
				continue
			}
			status := allocator.InverseOfferStatus{FrameworkID: *f.info.ID, Timestamp: *timeInfo(answer.at), Status: allocator.InverseOfferStatus_DECLINE.Enum()}
			if answer.accepted {
				status.Status = allocator.InverseOfferStatus_ACCEPT.Enum()
			}
			machine.Statuses = append(machine.Statuses, status)
		}
		out.Status.DrainingMachines = append(out.Status.DrainingMachines, machine)
	}
	return out
}

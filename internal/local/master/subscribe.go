package master

import (
	"net/http"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/master/alloc"
	"mesos-gpu/internal/local/master/check"
	"mesos-gpu/internal/wire"
)

// errStopped answers whoever comes after the end of Run.
var errStopped = wire.Errorf(http.StatusServiceUnavailable, "the master has stopped")

// subscribe connects a framework to stream and returns its id. What is wrong
// with the framework is said on the stream, as an ERROR event that ends it.
func (m *Master) subscribe(call *scheduler.Call_Subscribe, stream *wire.Stream, streamID string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return "", errStopped
	}
	info := *call.FrameworkInfo
	if err := m.mayNotSubscribe(info, call.SuppressedRoles); err != "" {
		m.cfg.Log.WithFields(map[string]any{"framework": info.Name, "reason": err}).Warn("refused subscription")
		stream.Send(errorEvent(err))
		stream.Close()
		return "", nil
	}
	f, isNew := m.admit(info)
	f.suppress(call.SuppressedRoles)
	f.stream, f.streamID = stream, streamID
	f.stopTimer()
	f.send(&scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID:              f.info.ID,
		HeartbeatIntervalSeconds: seconds(m.cfg.HeartbeatInterval),
		MasterInfo:               &m.info,
	}})
	f.send(heartbeatEvent())
	if isNew {
		m.watch(frameworkAdded(m.describeFramework(f)))
	} else {
		m.watch(frameworkUpdated(m.describeFramework(f)))
	}
	m.cfg.Log.WithFields(map[string]any{"framework": f.id(), "name": info.Name}).Info("subscribed framework")
	m.allocate()
	return f.id(), nil
}

func seconds(d time.Duration) *float64 { s := d.Seconds(); return &s }

// mayNotSubscribe is the reason for which a framework is refused, or empty.
func (m *Master) mayNotSubscribe(info mesos.FrameworkInfo, suppressed []string) string {
	if err := check.Framework(info); err != nil {
		return err.Error()
	}
	if err := check.Suppressed(info, suppressed); err != nil {
		return err.Error()
	}
	id := info.GetID().GetValue()
	if slices.ContainsFunc(m.completed, func(f *framework) bool { return f.id() == id }) {
		return "Framework has been removed"
	}
	if old := m.frameworks[id]; old != nil {
		if err := check.Update(old.info, info, false); err != nil {
			return err.Error()
		}
	}
	return ""
}

// admit finds or makes the framework, and evicts whoever is connected as it.
// One that the master does not know keeps the id it brings: it subscribed to
// an earlier master.
func (m *Master) admit(info mesos.FrameworkInfo) (f *framework, isNew bool) {
	id := info.GetID().GetValue()
	f = m.frameworks[id]
	if f == nil {
		if id == "" {
			info.ID = &mesos.FrameworkID{Value: m.newID("", &m.nextID.framework)}
		}
		f = newFramework(info)
		m.frameworks[f.id()] = f
		return f, true
	}
	if f.stream != nil {
		f.send(errorEvent("Framework failed over"))
		f.stream.Close()
	}
	m.dropOffers(f, "")
	m.dropInverse(func(o *inverseOffer) bool { return o.framework == f.id() })
	m.forgetRefusals(f, nil)
	info.User, info.Checkpoint = f.info.User, f.info.Checkpoint
	f.info = info
	f.reregistered, f.recovered = time.Now(), false
	return f, false
}

// disconnect starts a framework's failover timeout, if stream is still the
// one it is connected by.
func (m *Master) disconnect(id string, stream *wire.Stream, cause error) {
	f := m.frameworks[id]
	if f == nil || f.stream != stream {
		return
	}
	m.cfg.Log.WithFields(map[string]any{"framework": id}).WithError(cause).Info("framework disconnected")
	f.stream, f.streamID = nil, ""
	m.dropOffers(f, "")
	m.dropInverse(func(o *inverseOffer) bool { return o.framework == id })
	m.forgetRefusals(f, nil)
	timeout := time.Duration(f.info.GetFailoverTimeout() * float64(time.Second))
	if timeout <= 0 {
		m.remove(f)
		return
	}
	f.stopTimer()
	var timer *time.Timer
	timer = time.AfterFunc(timeout, func() {
		m.locked(func() {
			if m.frameworks[id] == f && f.timer == timer {
				m.remove(f)
			}
		})
	})
	f.timer = timer
}

// remove tears a framework down: its executors are shut down, its tasks are
// killed and its id may not come back.
func (m *Master) remove(f *framework) {
	m.cfg.Log.WithFields(map[string]any{"framework": f.id()}).Info("removed framework")
	f.stopTimer()
	m.dropOffers(f, "")
	m.dropInverse(func(o *inverseOffer) bool { return o.framework == f.id() })
	m.forgetRefusals(f, nil)
	for claim := range m.turns {
		if claim.Framework == f.id() {
			delete(m.turns, claim)
		}
	}
	for _, a := range m.agents {
		id := *f.info.ID
		a.box.post(func() { a.link.ShutdownFramework(id) })
	}
	for _, tasks := range []map[string]*task{f.tasks, f.unreachable} {
		for _, t := range sorted(tasks) {
			m.record(f, t, masterStatus(t.TaskID, t.AgentID.Value, mesos.TASK_KILLED,
				mesos.REASON_FRAMEWORK_REMOVED, "Framework "+f.id()+" removed"))
			f.complete(t)
		}
	}
	if f.stream != nil {
		f.stream.Close()
		f.stream = nil
	}
	f.unregistered = time.Now()
	delete(m.frameworks, f.id())
	m.completed = append(m.completed, f)
	if n := len(m.completed) - maxCompletedFrameworks; n > 0 {
		m.completed = slices.Delete(m.completed, 0, n)
	}
	m.watch(frameworkRemoved(f.info))
}

// forgetRefusals drops a framework's filters for roles, or all of them.
func (m *Master) forgetRefusals(f *framework, roles []string) {
	for slot := range m.refusals {
		if slot.Framework == f.id() && (len(roles) == 0 || slices.Contains(roles, slot.Role)) {
			delete(m.refusals, slot)
		}
	}
}

// refuse keeps an agent's resources from being offered to the claim for the
// filters' time.
func (m *Master) refuse(slot alloc.Slot, rs []mesos.Resource, filters *mesos.Filters) {
	const longest = 365 * 24 * 3600
	wait := filters.GetRefuseSeconds()
	if wait < 0 || wait != wait {
		wait = mesos.Default_Filters_RefuseSeconds
	}
	if wait == 0 || len(rs) == 0 {
		return
	}
	// A filter lasts at least until the next allocation, which it is for.
	d := max(time.Duration(min(wait, longest)*float64(time.Second)), m.cfg.AllocationInterval)
	m.refusals[slot] = append(m.refusals[slot], alloc.Refusal{Resources: rs, Until: time.Now().Add(d)})
}

package master

import (
	"bytes"
	"net/http"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/master/alloc"
	"mesos-gpu/internal/local/master/check"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/events"
)

// errStopped is returned to every caller after Run has ended.
var errStopped = mesosapi.Errorf(http.StatusServiceUnavailable, "the master has stopped")

// subscribeFramework connects a framework to stream and returns its id. If the
// framework is invalid, it sends an ERROR event, which ends the stream.
func (m *EmbeddedMaster) subscribeFramework(call *scheduler.Call_Subscribe, stream *mesosapi.EventStream, streamID string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return "", errStopped
	}
	info := *call.FrameworkInfo
	if err := m.checkSubscription(info, call.SuppressedRoles); err != "" {
		m.cfg.Log.WithFields(map[string]any{"framework": info.Name, "reason": err}).Warn("refused subscription")
		stream.Send(events.NewError(err))
		stream.Close()
		return "", nil
	}
	f := m.admitFramework(info)
	f.suppressRoles(call.SuppressedRoles)
	f.stream, f.streamID = stream, streamID
	f.stopTimer()
	f.sendEvent(events.NewSubscribed(*f.info.ID, m.cfg.heartbeatInterval, &m.info))
	f.sendEvent(events.NewHeartbeat())
	f.resendUnacknowledged()
	m.cfg.Log.WithFields(map[string]any{"framework": f.id(), "name": info.Name}).Info("subscribed framework")
	m.allocateAll()
	return f.id(), nil
}

// resendUnacknowledged sends the statuses that arrived while the framework was
// disconnected, before a reconciliation can answer with their states only. The
// agent repeats them too, later.
func (f *frameworkState) resendUnacknowledged() {
	for _, t := range sortedValues(f.tasks) {
		if n := len(t.Statuses); n > 0 && len(t.Statuses[n-1].UUID) > 0 && !bytes.Equal(t.Statuses[n-1].UUID, t.acknowledged) {
			s := t.Statuses[n-1]
			t.StatusUpdateState, t.StatusUpdateUUID = s.State, s.UUID
			f.sendEvent(events.NewUpdate(s))
		}
	}
}

// checkSubscription returns the reason for rejecting a framework, or "".
func (m *EmbeddedMaster) checkSubscription(info mesos.FrameworkInfo, suppressed []string) string {
	if err := check.ValidateFramework(info); err != nil {
		return err.Error()
	}
	if err := check.ValidateSuppressed(info, suppressed); err != nil {
		return err.Error()
	}
	id := info.GetID().GetValue()
	if slices.ContainsFunc(m.completed, func(f *frameworkState) bool { return f.id() == id }) {
		return "Framework has been removed"
	}
	if old := m.frameworks[id]; old != nil {
		if err := check.ValidateUpdate(old.info, info, false); err != nil {
			return err.Error()
		}
	}
	return ""
}

// admitFramework finds or creates the framework and disconnects another
// scheduler with the same id. An unknown framework keeps its id, because it may
// have subscribed to an earlier master.
func (m *EmbeddedMaster) admitFramework(info mesos.FrameworkInfo) *frameworkState {
	id := info.GetID().GetValue()
	f := m.frameworks[id]
	if f == nil {
		if id == "" {
			info.ID = &mesos.FrameworkID{Value: m.newID("", &m.nextID.framework)}
		}
		f = newFramework(info)
		m.frameworks[f.id()] = f
		return f
	}
	if f.stream != nil {
		f.sendEvent(events.NewError("Framework failed over"))
		f.stream.Close()
	}
	m.dropOffers(f)
	info.User, info.Checkpoint = f.info.User, f.info.Checkpoint
	f.info = info
	f.reregistered, f.recovered = time.Now(), false
	return f
}

// disconnectFramework starts a framework's failover timeout if stream is still
// its current connection.
func (m *EmbeddedMaster) disconnectFramework(id string, stream *mesosapi.EventStream, cause error) {
	f := m.frameworks[id]
	if f == nil || f.stream != stream {
		return
	}
	m.cfg.Log.WithFields(map[string]any{"framework": id}).WithError(cause).Info("framework disconnected")
	f.stream, f.streamID = nil, ""
	m.dropOffers(f)
	timeout := time.Duration(f.info.GetFailoverTimeout() * float64(time.Second))
	if timeout <= 0 {
		m.removeFramework(f)
		return
	}
	f.stopTimer()
	var timer *time.Timer
	timer = time.AfterFunc(timeout, func() {
		m.withLock(func() {
			if m.frameworks[id] == f && f.timer == timer {
				m.removeFramework(f)
			}
		})
	})
	f.timer = timer
}

// removeFramework removes a framework: it shuts down its executors and tasks,
// and its id cannot subscribe again.
func (m *EmbeddedMaster) removeFramework(f *frameworkState) {
	m.cfg.Log.WithFields(map[string]any{"framework": f.id()}).Info("removed framework")
	f.stopTimer()
	m.dropOffers(f)
	for claim := range m.turns {
		if claim.Framework == f.id() {
			delete(m.turns, claim)
		}
	}
	for _, a := range m.agents {
		id := *f.info.ID
		m.callAgent(a, func() { a.link.ShutdownFramework(id) })
	}
	for _, tasks := range []map[string]*masterTask{f.tasks, f.unreachable} {
		for _, t := range sortedValues(tasks) {
			t.updateStatus(masterStatus(t.TaskID, t.AgentID.Value, mesos.TASK_KILLED,
				mesos.REASON_FRAMEWORK_REMOVED, "Framework "+f.id()+" removed"))
			f.completeTask(t)
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
}

// forgetRefusals removes a framework's offer filters for the given roles, or
// all of them.
func (m *EmbeddedMaster) forgetRefusals(f *frameworkState, roles []string) {
	m.filters.Remove(func(s alloc.ClaimSlot) bool {
		return s.Framework == f.id() && (len(roles) == 0 || slices.Contains(roles, s.Role))
	})
}

// refuseResources suppresses offers of the resources to the claim for the
// duration of the filter.
func (m *EmbeddedMaster) refuseResources(slot alloc.ClaimSlot, rs []mesos.Resource, filters *mesos.Filters) {
	const longest = 365 * 24 * 3600
	wait := filters.GetRefuseSeconds()
	if wait < 0 || wait != wait {
		wait = mesos.Default_Filters_RefuseSeconds
	}
	if wait == 0 || len(rs) == 0 {
		return
	}
	// A filter lasts at least until the next allocation.
	d := max(time.Duration(min(wait, longest)*float64(time.Second)), m.cfg.AllocationInterval)
	m.filters.Add(slot, rs, time.Now().Add(d))
}

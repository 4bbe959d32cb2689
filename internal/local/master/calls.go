package master

import (
	"net/http"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/local/master/amount"
	"mesos-gpu/internal/local/master/check"
	"mesos-gpu/internal/wire"
)

// dispatch runs one valid call of a connected framework.
func (m *Master) dispatch(f *framework, call *scheduler.Call) (int, error) {
	switch call.Type {
	case scheduler.Call_TEARDOWN:
		m.remove(f)
	case scheduler.Call_ACCEPT:
		m.accept(f, call.Accept)
	case scheduler.Call_DECLINE:
		m.decline(f, call.Decline)
	case scheduler.Call_REVIVE:
		m.revive(f, call.GetRevive().GetRoles())
	case scheduler.Call_SUPPRESS:
		m.suppress(f, call.GetSuppress().GetRoles())
	case scheduler.Call_KILL:
		m.kill(f, call.Kill)
	case scheduler.Call_SHUTDOWN:
		m.shutdown(f, call.Shutdown)
	case scheduler.Call_ACKNOWLEDGE:
		m.acknowledge(f, call.Acknowledge)
	case scheduler.Call_RECONCILE:
		m.reconcile(f, call.Reconcile.Tasks)
	case scheduler.Call_MESSAGE:
		m.message(f, call.Message)
	case scheduler.Call_UPDATE_FRAMEWORK:
		return http.StatusOK, m.updateFramework(f, call.UpdateFramework)
	case scheduler.Call_RECONCILE_OPERATIONS:
		m.reconcileOperations(f, call.ReconcileOperations)
	case scheduler.Call_ACCEPT_INVERSE_OFFERS:
		m.answerInverse(f, call.AcceptInverseOffers.InverseOfferIDs, true, call.AcceptInverseOffers.Filters)
	case scheduler.Call_DECLINE_INVERSE_OFFERS:
		m.answerInverse(f, call.DeclineInverseOffers.InverseOfferIDs, false, call.DeclineInverseOffers.Filters)
	case scheduler.Call_REQUEST, scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS:
		// Requests are ignored by the allocator; statuses of operations come
		// without a uuid, so there is nothing to acknowledge.
	default:
		return 0, wire.Errorf(http.StatusNotImplemented, "calls of type %v are not implemented", call.Type)
	}
	return http.StatusAccepted, nil
}

func (m *Master) decline(f *framework, call *scheduler.Call_Decline) {
	for _, id := range call.OfferIDs {
		o := m.offers[id.Value]
		if o == nil || o.slot.Framework != f.id() {
			continue // rescinded or answered before
		}
		delete(m.offers, id.Value)
		m.refuse(o.slot, amount.Unallocate(o.Resources), call.Filters)
	}
}

// ownRoles reports whether the framework has all of roles; a call with
// another is dropped.
func (m *Master) ownRoles(f *framework, call string, roles []string) bool {
	if err := check.Suppressed(f.info, roles); err != nil {
		m.cfg.Log.WithFields(map[string]any{"framework": f.id(), "call": call}).WithError(err).Warn("dropped call")
		return false
	}
	return true
}

func (m *Master) revive(f *framework, roles []string) {
	if !m.ownRoles(f, "REVIVE", roles) {
		return
	}
	if len(roles) == 0 {
		f.suppress(nil)
	}
	for _, role := range roles {
		delete(f.suppressed, role)
	}
	m.forgetRefusals(f, roles)
	m.allocate()
}

func (m *Master) suppress(f *framework, roles []string) {
	if !m.ownRoles(f, "SUPPRESS", roles) {
		return
	}
	if len(roles) == 0 {
		roles = check.Roles(f.info)
	}
	for _, role := range roles {
		f.suppressed[role] = true
	}
}

// kill asks the agent; a task that no agent has is answered as a
// reconciliation of it would be.
func (m *Master) kill(f *framework, call *scheduler.Call_Kill) {
	t := f.tasks[call.TaskID.Value]
	if t == nil {
		m.reconcile(f, []scheduler.Call_Reconcile_Task{{TaskID: call.TaskID, AgentID: call.AgentID}})
		return
	}
	if call.AgentID != nil && *call.AgentID != t.AgentID {
		m.cfg.Log.WithFields(map[string]any{"framework": f.id(), "task": t.id(), "agent": call.AgentID.Value}).
			Warn("dropped KILL: the task is on another agent")
		return
	}
	if a := m.agents[t.AgentID.Value]; a != nil {
		framework, task, policy := *f.info.ID, t.TaskID, call.KillPolicy
		a.box.post(func() { a.link.Kill(framework, task, policy) })
	}
}

func (m *Master) shutdown(f *framework, call *scheduler.Call_Shutdown) {
	a := m.agents[call.AgentID.Value]
	if a == nil {
		return
	}
	if _, runs := a.executor(f.id(), call.ExecutorID.Value); runs {
		framework, executor := *f.info.ID, call.ExecutorID
		a.box.post(func() { a.link.ShutdownExecutor(framework, executor) })
	}
}

// acknowledge passes the acknowledgement on; that of the last status ends
// the task.
func (m *Master) acknowledge(f *framework, call *scheduler.Call_Acknowledge) {
	a := m.agents[call.AgentID.Value]
	if a == nil {
		return // it repeats the status when it is back
	}
	t := f.tasks[call.TaskID.Value]
	if t != nil && t.AgentID == a.id && t.StatusUpdateState != nil &&
		link.Terminal(*t.StatusUpdateState) && slices.Equal(t.StatusUpdateUUID, call.UUID) {
		f.complete(t)
		defer m.checkDrained(a)
	}
	framework, task, uuid := *f.info.ID, call.TaskID, call.UUID
	a.box.post(func() { a.link.Acknowledge(framework, task, uuid) })
}

func (m *Master) message(f *framework, call *scheduler.Call_Message) {
	a := m.agents[call.AgentID.Value]
	if a == nil {
		m.cfg.Log.WithFields(map[string]any{"framework": f.id(), "agent": call.AgentID.Value}).Warn("dropped MESSAGE: the agent is not registered")
		return
	}
	framework, executor, data := *f.info.ID, call.ExecutorID, call.Data
	a.box.post(func() { a.link.Message(framework, executor, data) })
}

func (m *Master) updateFramework(f *framework, call *scheduler.Call_UpdateFramework) error {
	info := call.FrameworkInfo
	err := check.Framework(info)
	if err == nil {
		err = check.Update(f.info, info, true)
	}
	if err == nil {
		err = check.Suppressed(info, call.SuppressedRoles)
	}
	if err != nil {
		return wire.Errorf(http.StatusBadRequest, "update framework %s: %v", f.id(), err)
	}
	f.info = info
	f.suppress(call.SuppressedRoles)
	roles := check.Roles(info)
	m.rescind(func(o *offer) bool { return o.slot.Framework == f.id() && !slices.Contains(roles, o.slot.Role) })
	m.watch(frameworkUpdated(m.describeFramework(f)))
	m.allocate()
	return nil
}

// reconcileOperations answers that nobody knows the operations: this master
// performs none.
func (m *Master) reconcileOperations(f *framework, call *scheduler.Call_ReconcileOperations) {
	for _, op := range call.Operations {
		m.operationStatus(f, op.OperationID, mesos.OPERATION_UNKNOWN, "Reconciliation: Operation is unknown")
	}
}

func (m *Master) operationStatus(f *framework, id mesos.OperationID, state mesos.OperationState, message string) {
	f.send(&scheduler.Event{
		Type: scheduler.Event_UPDATE_OPERATION_STATUS,
		UpdateOperationStatus: &scheduler.Event_UpdateOperationStatus{
			Status: mesos.OperationStatus{OperationID: &id, State: state, Message: &message},
		},
	})
}

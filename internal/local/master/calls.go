package master

import (
	"net/http"
	"slices"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/local/master/check"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/resource"
)

// dispatchCall executes a valid call of a connected framework.
func (m *EmbeddedMaster) dispatchCall(f *frameworkState, call *scheduler.Call) (int, error) {
	switch call.Type {
	case scheduler.Call_TEARDOWN:
		m.removeFramework(f)
	case scheduler.Call_ACCEPT:
		m.acceptOffers(f, call.Accept)
	case scheduler.Call_DECLINE:
		m.declineOffers(f, call.Decline)
	case scheduler.Call_REVIVE:
		m.reviveRoles(f, call.GetRevive().GetRoles())
	case scheduler.Call_SUPPRESS:
		m.suppressRoles(f, call.GetSuppress().GetRoles())
	case scheduler.Call_KILL:
		m.killTask(f, call.Kill)
	case scheduler.Call_SHUTDOWN:
		m.shutdownExecutor(f, call.Shutdown)
	case scheduler.Call_MESSAGE:
		m.sendMessage(f, call.GetMessage())
	case scheduler.Call_ACKNOWLEDGE:
		m.acknowledgeStatus(f, call.Acknowledge)
	case scheduler.Call_RECONCILE:
		m.reconcileTasks(f, call.Reconcile.Tasks)
	case scheduler.Call_UPDATE_FRAMEWORK:
		return http.StatusOK, m.updateFramework(f, call.UpdateFramework)
	case scheduler.Call_ACCEPT_INVERSE_OFFERS:
		m.answerInverse(f, call.AcceptInverseOffers.InverseOfferIDs, call.AcceptInverseOffers.Filters)
	case scheduler.Call_DECLINE_INVERSE_OFFERS:
		m.answerInverse(f, call.DeclineInverseOffers.InverseOfferIDs, call.DeclineInverseOffers.Filters)
	case scheduler.Call_REQUEST, scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS:
		// The allocator ignores REQUEST. This master performs no operations, so
		// there is nothing to acknowledge.
	default:
		return 0, mesosapi.Errorf(http.StatusNotImplemented, "calls of type %v are not implemented", call.Type)
	}
	return http.StatusAccepted, nil
}

func (m *EmbeddedMaster) declineOffers(f *frameworkState, call *scheduler.Call_Decline) {
	for _, id := range call.OfferIDs {
		o := m.offers[id.Value]
		if o == nil || o.slot.Framework != f.id() {
			continue // rescinded or answered before
		}
		delete(m.offers, id.Value)
		m.refuseResources(o.slot, resource.Unallocate(o.Resources), call.Filters)
	}
}

// ownRoles reports whether the framework has all of roles. If not, the call is
// dropped.
func (m *EmbeddedMaster) ownRoles(f *frameworkState, call string, roles []string) bool {
	if err := check.ValidateSuppressed(f.info, roles); err != nil {
		m.cfg.Log.WithFields(map[string]any{"framework": f.id(), "call": call}).WithError(err).Warn("dropped call")
		return false
	}
	return true
}

func (m *EmbeddedMaster) reviveRoles(f *frameworkState, roles []string) {
	if !m.ownRoles(f, "REVIVE", roles) {
		return
	}
	if len(roles) == 0 {
		f.suppressRoles(nil)
	}
	for _, role := range roles {
		delete(f.suppressed, role)
	}
	m.forgetRefusals(f, roles)
	m.allocateAll()
}

func (m *EmbeddedMaster) suppressRoles(f *frameworkState, roles []string) {
	if !m.ownRoles(f, "SUPPRESS", roles) {
		return
	}
	if len(roles) == 0 {
		roles = check.RolesOf(f.info)
	}
	for _, role := range roles {
		f.suppressed[role] = true
	}
}

// killTask forwards a kill to the agent. For a task that the master does not know
// it answers like a reconciliation, even if an agent runs it.
func (m *EmbeddedMaster) killTask(f *frameworkState, call *scheduler.Call_Kill) {
	t := f.tasks[call.TaskID.Value]
	if t == nil {
		m.reconcileTasks(f, []scheduler.Call_Reconcile_Task{{TaskID: call.TaskID, AgentID: call.AgentID}})
		return
	}
	if call.AgentID != nil && *call.AgentID != t.AgentID {
		m.cfg.Log.WithFields(map[string]any{"framework": f.id(), "task": t.id(), "agent": call.AgentID.Value}).
			Warn("dropped KILL: the task is on another agent")
		return
	}
	if a := m.agents[t.AgentID.Value]; a != nil {
		a.killed[taskKey{f.id(), t.id()}] = true
		framework, task, policy := *f.info.ID, t.TaskID, call.KillPolicy
		m.callAgent(a, func() { a.link.Kill(framework, task, policy) })
	}
}

// shutdownExecutor forwards a shutdown to the agent, whether or not the master
// knows the executor.
func (m *EmbeddedMaster) shutdownExecutor(f *frameworkState, call *scheduler.Call_Shutdown) {
	if a := m.agents[call.AgentID.Value]; a != nil {
		framework, executor := *f.info.ID, call.ExecutorID
		m.callAgent(a, func() { a.link.ShutdownExecutor(framework, executor) })
	}
}

// sendMessage forwards a message to the agent, whether or not the master knows
// the executor.
func (m *EmbeddedMaster) sendMessage(f *frameworkState, call *scheduler.Call_Message) {
	if a := m.agents[call.AgentID.Value]; a != nil {
		framework, executor, data := *f.info.ID, call.ExecutorID, slices.Clone(call.Data)
		m.callAgent(a, func() { a.link.Message(framework, executor, data) })
	}
}

// acknowledgeStatus forwards an acknowledgement to the agent. Acknowledging the
// terminal status removes the task.
func (m *EmbeddedMaster) acknowledgeStatus(f *frameworkState, call *scheduler.Call_Acknowledge) {
	a := m.agents[call.AgentID.Value]
	if a == nil {
		return // the agent resends the status when it returns
	}
	t := f.tasks[call.TaskID.Value]
	if t != nil {
		t.acknowledged = call.UUID
	}
	if t != nil && t.AgentID == a.id && t.StatusUpdateState != nil &&
		events.IsTerminal(*t.StatusUpdateState) && slices.Equal(t.StatusUpdateUUID, call.UUID) {
		f.completeTask(t)
		delete(a.killed, taskKey{f.id(), t.id()})
		defer m.checkDrained(a)
	}
	framework, task, uuid := *f.info.ID, call.TaskID, call.UUID
	m.callAgent(a, func() { a.link.Acknowledge(framework, task, uuid) })
}

func (m *EmbeddedMaster) updateFramework(f *frameworkState, call *scheduler.Call_UpdateFramework) error {
	info := call.FrameworkInfo
	err := check.ValidateFramework(info)
	if err == nil {
		err = check.ValidateUpdate(f.info, info, true)
	}
	if err == nil {
		err = check.ValidateSuppressed(info, call.SuppressedRoles)
	}
	if err != nil {
		return mesosapi.Errorf(http.StatusBadRequest, "update framework %s: %v", f.id(), err)
	}
	f.info = info
	f.suppressRoles(call.SuppressedRoles)
	roles := check.RolesOf(info)
	m.rescindOffers(func(o *outstandingOffer) bool {
		return o.slot.Framework == f.id() && !slices.Contains(roles, o.slot.Role)
	})
	m.allocateAll()
	return nil
}

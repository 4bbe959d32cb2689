package master

import (
	"net/http"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/internal/mesosapi"
)

// agentAdminState is an agent's administrative state, set by operators. It is
// kept when the agent is lost, as in Mesos's registry. In the zero state,
// the agent receives tasks.
type agentAdminState struct {
	drain *mesos.DrainInfo // replaced, never modified; nil for an agent that is active
	// maxGrace limits the grace period of killed tasks. Nil means no limit.
	maxGrace *time.Duration
}

// adminState returns the zero state for an agent without one.
func (m *EmbeddedMaster) adminState(agent string) *agentAdminState {
	if s := m.standings[agent]; s != nil {
		return s
	}
	return &agentAdminState{}
}

// drainAgent kills an agent's tasks and stops offering it.
func (m *EmbeddedMaster) drainAgent(call *operator.Call_DrainAgent) error {
	id := call.GetAgentID()
	a := m.agents[id.Value]
	switch {
	case a == nil:
		return mesosapi.Errorf(http.StatusBadRequest, "unknown agent %q", id.Value)
	case call.GetMarkGone():
		return mesosapi.Errorf(http.StatusNotImplemented, "mark_gone is not implemented by this embedded master")
	}
	s := &agentAdminState{drain: &mesos.DrainInfo{State: mesos.DrainState_DRAINING}}
	m.standings[id.Value] = s
	m.rescindOffers(func(o *outstandingOffer) bool { return o.slot.Agent == id.Value })
	if d := call.GetMaxGracePeriod(); d != nil {
		grace := time.Duration(d.Seconds)*time.Second + time.Duration(d.Nanos)
		s.maxGrace = &grace
		s.drain.Config.MaxGracePeriod = &mesos.DurationInfo{Nanoseconds: grace.Nanoseconds()}
	}
	m.continueDrain(a)
	return nil
}

// continueDrain kills the tasks of a draining agent.
func (m *EmbeddedMaster) continueDrain(a *registeredAgent) {
	s := m.adminState(a.id.Value)
	if s.drain == nil || s.drain.State != mesos.DrainState_DRAINING {
		return
	}
	for _, f := range sortedValues(m.frameworks) {
		for _, t := range sortedValues(f.tasks) {
			if t.AgentID == a.id && !t.isTerminal() {
				framework, task, policy := *f.info.ID, t.TaskID, s.killPolicy(t)
				m.callAgent(a, func() { a.link.Kill(framework, task, policy) })
			}
		}
	}
	m.checkDrained(a)
}

// killPolicy returns a kill policy with the grace period maxGrace, or nil if
// the task's own grace period is not longer.
func (s *agentAdminState) killPolicy(t *masterTask) *mesos.KillPolicy {
	own := t.GetKillPolicy().GetGracePeriod()
	if s.maxGrace == nil || own != nil && own.Nanoseconds <= s.maxGrace.Nanoseconds() {
		return nil
	}
	return &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: s.maxGrace.Nanoseconds()}}
}

// markDrained marks a status that a drain has caused.
func (m *EmbeddedMaster) markDrained(id mesos.AgentID, s mesos.TaskStatus) mesos.TaskStatus {
	standing := m.adminState(id.Value)
	if standing.drain == nil || s.GetState() != mesos.TASK_KILLED && s.GetState() != mesos.TASK_KILLING {
		return s
	}
	s.Reason = mesos.REASON_AGENT_DRAINING.Enum()
	return s
}

// checkDrained completes a drain once no task is left and all terminal statuses
// are acknowledged.
func (m *EmbeddedMaster) checkDrained(a *registeredAgent) {
	s := m.adminState(a.id.Value)
	if s.drain == nil || s.drain.State != mesos.DrainState_DRAINING {
		return
	}
	for _, f := range m.frameworks {
		for _, t := range f.tasks {
			if t.AgentID == a.id {
				return
			}
		}
	}
	s.drain = &mesos.DrainInfo{State: mesos.DrainState_DRAINED, Config: s.drain.Config}
	m.cfg.Log.WithField("agent", a.id.Value).Info("drained agent")
}

package master

import (
	"net/http"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"

	"mesos-gpu/internal/wire"
)

// standing is what operators have decided about an agent. It outlives the
// agent's loss, as Mesos's registry does.
type standing struct {
	deactivated bool
	drain       *mesos.DrainInfo // replaced, never written into
	// maxGrace bounds what killed tasks get; nil leaves them their own.
	maxGrace *time.Duration
	markGone bool
}

// standing is the zero one for agents that nobody has dealt with.
func (m *Master) standing(agent string) *standing {
	if s := m.standings[agent]; s != nil {
		return s
	}
	return &standing{}
}

func (m *Master) knownAgent(id mesos.AgentID) (*agent, error) {
	a := m.agents[id.Value]
	if a == nil {
		return nil, wire.Errorf(http.StatusBadRequest, "unknown agent %q", id.Value)
	}
	return a, nil
}

func (m *Master) deactivate(id mesos.AgentID) error {
	if _, err := m.knownAgent(id); err != nil {
		return err
	}
	s := m.standing(id.Value)
	s.deactivated = true
	m.standings[id.Value] = s
	m.rescind(func(o *offer) bool { return o.slot.Agent == id.Value })
	return nil
}

func (m *Master) reactivate(id mesos.AgentID) error {
	if _, err := m.knownAgent(id); err != nil {
		return err
	}
	s := m.standing(id.Value)
	switch {
	case !s.deactivated:
		return wire.Errorf(http.StatusBadRequest, "agent %q is not deactivated", id.Value)
	case s.drain != nil && s.drain.State == mesos.DrainState_DRAINING:
		return wire.Errorf(http.StatusBadRequest, "agent %q is still in the DRAINING state", id.Value)
	}
	delete(m.standings, id.Value)
	m.allocate()
	return nil
}

// drain ends an agent's tasks and offers it no more.
func (m *Master) drain(call *operator.Call_DrainAgent) error {
	id := call.GetAgentID()
	if err := m.deactivate(id); err != nil {
		return err
	}
	s := m.standings[id.Value]
	s.drain = &mesos.DrainInfo{State: mesos.DrainState_DRAINING, Config: mesos.DrainConfig{MarkGone: call.MarkGone}}
	if d := call.GetMaxGracePeriod(); d != nil {
		grace := time.Duration(d.Seconds)*time.Second + time.Duration(d.Nanos)
		s.maxGrace = &grace
		s.drain.Config.MaxGracePeriod = &mesos.DurationInfo{Nanoseconds: grace.Nanoseconds()}
	}
	s.markGone = call.GetMarkGone()
	m.goOnDraining(m.agents[id.Value])
	return nil
}

// goOnDraining kills what runs on an agent that is to be drained.
func (m *Master) goOnDraining(a *agent) {
	s := m.standing(a.id.Value)
	if s.drain == nil || s.drain.State != mesos.DrainState_DRAINING {
		return
	}
	for _, f := range sorted(m.frameworks) {
		for _, t := range sorted(f.tasks) {
			if t.AgentID == a.id && !t.done() {
				framework, task, policy := *f.info.ID, t.TaskID, s.killPolicy(t)
				a.box.post(func() { a.link.Kill(framework, task, policy) })
			}
		}
	}
	m.checkDrained(a)
}

// killPolicy is the task's own, if that is as short.
func (s *standing) killPolicy(t *task) *mesos.KillPolicy {
	own := t.GetKillPolicy().GetGracePeriod()
	if s.maxGrace == nil || own != nil && own.Nanoseconds <= s.maxGrace.Nanoseconds() {
		return nil
	}
	return &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: s.maxGrace.Nanoseconds()}}
}

// drained marks what a drain does to a task.
func (m *Master) drained(id mesos.AgentID, s mesos.TaskStatus) mesos.TaskStatus {
	standing := m.standing(id.Value)
	if standing.drain == nil || s.GetState() != mesos.TASK_KILLED && s.GetState() != mesos.TASK_KILLING {
		return s
	}
	s.Reason = mesos.REASON_AGENT_DRAINING.Enum()
	if standing.markGone && s.GetState() == mesos.TASK_KILLED {
		s.State = mesos.TASK_GONE_BY_OPERATOR.Enum()
	}
	return s
}

// checkDrained ends a drain once no task is left, acknowledged ends included.
func (m *Master) checkDrained(a *agent) {
	s := m.standing(a.id.Value)
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
	if s.markGone {
		m.makeGone(a)
	}
}

func (m *Master) markGone(id mesos.AgentID) error {
	a, err := m.knownAgent(id)
	if err == nil {
		m.makeGone(a)
	}
	return err
}

// makeGone removes an agent for good, and its tasks with it.
func (m *Master) makeGone(a *agent) {
	m.gone[a.id.Value] = true
	delete(m.standings, a.id.Value)
	m.removeAgent(a, func(f *framework, t *task) {
		m.end(f, t, masterStatus(t.TaskID, a.id.Value, f.orLost(mesos.TASK_GONE_BY_OPERATOR),
			mesos.REASON_AGENT_REMOVED_BY_OPERATOR, "Agent "+a.info.Hostname+" was marked gone"))
	})
}

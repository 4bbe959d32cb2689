package faultproxy

import (
	"errors"
	"fmt"
	"sync"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// AgentProxy is the network between the embedded master and one agent. While a
// direction is cut, its messages wait, and arrive in order once it is healed: so
// does a launch that was sent into a partition, although the master may have
// removed its task meanwhile. Make it the agent's master.
type AgentProxy struct {
	master link.MasterLink

	mu                sync.Mutex
	toAgent, toMaster direction
	id                mesos.AgentID
	agent             link.AgentLink
}

// direction is one way of the network.
type direction struct {
	cut      bool
	messages []func()
	busy     bool // a goroutine delivers messages
}

var (
	_ link.MasterLink = (*AgentProxy)(nil)
	_ link.AgentLink  = proxiedAgent{}
)

// errCut is returned to an agent that registers with a master that it cannot reach.
var errCut = errors.New("the network is cut")

// NewAgentProxy returns a proxy in front of a master.
func NewAgentProxy(master link.MasterLink) *AgentProxy { return &AgentProxy{master: master} }

// Cut cuts the network in the given directions, until Heal.
func (p *AgentProxy) Cut(toAgent, toMaster bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toAgent.cut = p.toAgent.cut || toAgent
	p.toMaster.cut = p.toMaster.cut || toMaster
}

// Heal restores the network in the given directions and delivers what waits.
func (p *AgentProxy) Heal(toAgent, toMaster bool) {
	p.mu.Lock()
	p.toAgent.cut = p.toAgent.cut && !toAgent
	p.toMaster.cut = p.toMaster.cut && !toMaster
	p.mu.Unlock()
	p.deliver(&p.toAgent)
	p.deliver(&p.toMaster)
}

// LoseAgent makes the master remove the agent as unreachable, as it does after
// pings without an answer.
func (p *AgentProxy) LoseAgent() {
	p.mu.Lock()
	id := p.id
	p.mu.Unlock()
	p.master.Lost(id)
}

// Waiting returns the number of messages that wait in each direction.
func (p *AgentProxy) Waiting() (toAgent, toMaster int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.toAgent.messages), len(p.toMaster.messages)
}

// send delivers a message, or keeps it until the direction is healed.
func (p *AgentProxy) send(d *direction, message func()) {
	p.mu.Lock()
	d.messages = append(d.messages, message)
	p.mu.Unlock()
	p.deliver(d)
}

// deliver delivers the messages that wait, unless the direction is cut or another
// goroutine delivers them.
func (p *AgentProxy) deliver(d *direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.busy {
		return
	}
	d.busy = true
	for !d.cut && len(d.messages) > 0 {
		message := d.messages[0]
		d.messages = d.messages[1:]
		p.mu.Unlock()
		message()
		p.mu.Lock()
	}
	d.busy = false
}

// Register implements link.MasterLink. It fails while the master cannot be reached.
func (p *AgentProxy) Register(info mesos.AgentInfo, total []mesos.Resource, running []link.RunningExecutor, a link.AgentLink) (mesos.AgentID, error) {
	p.mu.Lock()
	cut := p.toMaster.cut
	p.agent = a
	p.mu.Unlock()
	if cut {
		return mesos.AgentID{}, fmt.Errorf("register agent %s: %w", info.Hostname, errCut)
	}
	id, err := p.master.Register(info, total, running, proxiedAgent{p})
	if err == nil {
		p.mu.Lock()
		p.id = id
		p.mu.Unlock()
	}
	return id, err
}

// UpdateTotal implements link.MasterLink.
func (p *AgentProxy) UpdateTotal(id mesos.AgentID, total []mesos.Resource) {
	p.send(&p.toMaster, func() { p.master.UpdateTotal(id, total) })
}

// Status implements link.MasterLink.
func (p *AgentProxy) Status(id mesos.AgentID, framework mesos.FrameworkID, status mesos.TaskStatus) {
	p.send(&p.toMaster, func() { p.master.Status(id, framework, status) })
}

// ExecutorExited implements link.MasterLink.
func (p *AgentProxy) ExecutorExited(id mesos.AgentID, framework mesos.FrameworkID, executor mesos.ExecutorID, status int32) {
	p.send(&p.toMaster, func() { p.master.ExecutorExited(id, framework, executor, status) })
}

// Lost implements link.MasterLink.
func (p *AgentProxy) Lost(id mesos.AgentID) {
	p.send(&p.toMaster, func() { p.master.Lost(id) })
}

// proxiedAgent is the agent behind a proxy. Its newest registration receives the
// calls.
type proxiedAgent struct{ proxy *AgentProxy }

func (a proxiedAgent) send(call func(link.AgentLink)) {
	p := a.proxy
	p.send(&p.toAgent, func() {
		p.mu.Lock()
		agent := p.agent
		p.mu.Unlock()
		call(agent)
	})
}

// Run implements link.AgentLink.
func (a proxiedAgent) Run(framework mesos.FrameworkInfo, executor mesos.ExecutorInfo, task mesos.TaskInfo) {
	a.send(func(l link.AgentLink) { l.Run(framework, executor, task) })
}

// Kill implements link.AgentLink.
func (a proxiedAgent) Kill(framework mesos.FrameworkID, task mesos.TaskID, policy *mesos.KillPolicy) {
	a.send(func(l link.AgentLink) { l.Kill(framework, task, policy) })
}

// Acknowledge implements link.AgentLink.
func (a proxiedAgent) Acknowledge(framework mesos.FrameworkID, task mesos.TaskID, uuid []byte) {
	a.send(func(l link.AgentLink) { l.Acknowledge(framework, task, uuid) })
}

// ReconcileTasks implements link.AgentLink.
func (a proxiedAgent) ReconcileTasks(framework mesos.FrameworkInfo, tasks []mesos.TaskID) {
	a.send(func(l link.AgentLink) { l.ReconcileTasks(framework, tasks) })
}

// Message implements link.AgentLink.
func (a proxiedAgent) Message(framework mesos.FrameworkID, executor mesos.ExecutorID, data []byte) {
	a.send(func(l link.AgentLink) { l.Message(framework, executor, data) })
}

// ShutdownExecutor implements link.AgentLink.
func (a proxiedAgent) ShutdownExecutor(framework mesos.FrameworkID, executor mesos.ExecutorID) {
	a.send(func(l link.AgentLink) { l.ShutdownExecutor(framework, executor) })
}

// ShutdownFramework implements link.AgentLink.
func (a proxiedAgent) ShutdownFramework(framework mesos.FrameworkID) {
	a.send(func(l link.AgentLink) { l.ShutdownFramework(framework) })
}

package clustersim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/offers"
	"mesos-gpu/internal/minimesos/resource"
)

// masterNode is the Mesos master: the one that leads, whichever process it is. A failover loses everything but the
// registry, which is the list of agents.
type masterNode struct {
	world *World
	leads bool
	term  int
	// nextFramework and nextOffer number what the master creates; ids of different terms differ.
	nextFramework, nextOffer int

	// registry has the ids of admitted agents, of all terms. Those in unreachable did not answer for too long.
	registry, unreachable map[string]bool

	// The rest belongs to one term. order has the registered agents in the order of their registration.
	framework *simulatedFramework
	agents    map[string]*registeredAgent
	order     []*registeredAgent
	tasks     map[string]*masterTask
	offers    map[string]*offer
	filters   *offers.Filters[filterSlot, []mesos.Resource]
}

// simulatedFramework is a framework. The simulated cluster has one, or successive ones if the scheduler died before it had
// recorded the id of the first.
type simulatedFramework struct {
	id string
	// stream is the subscription, nil while the framework is disconnected.
	stream     *subscriptionStream
	roles      []string
	suppressed map[string]bool
}

// registeredAgent is the master's view of an agent.
type registeredAgent struct {
	node *agentNode
	id   string
	// connection is nil while the agent is disconnected.
	connection *connection
	// total is everything that the agent has, as the master knows it.
	total []mesos.Resource
	// unused has the resources that no task uses, free the unused ones that are not offered. Each is nil if it must be computed again.
	unused, free []mesos.Resource
}

// masterTask is the master's view of a task. It is forgotten once its end is acknowledged.
type masterTask struct {
	id, agent string
	resources []mesos.Resource
	state     mesos.TaskState
}

type offer struct {
	id, role  string
	agent     *registeredAgent
	resources []mesos.Resource
}

func newMaster(w *World) *masterNode {
	return &masterNode{world: w, registry: map[string]bool{}, unreachable: map[string]bool{}}
}

// elect makes a process the leader, which recovers the registry.
func (m *masterNode) elect() {
	m.leads = true
	m.term++
	m.framework, m.agents, m.order = nil, map[string]*registeredAgent{}, nil
	m.tasks, m.offers = map[string]*masterTask{}, map[string]*offer{}
	m.filters = offers.NewFilters[filterSlot](containsFree)
	term := m.term
	m.world.after(m.world.plan.allocate, "allocate", func() { m.allocate(term) })
	m.world.after(2*time.Minute, "agents have to be back", func() { m.giveUpAgents(term) })
}

// failOver ends the leading master. Another one is elected soon.
func (m *masterNode) failOver() {
	if !m.leads {
		return
	}
	m.leads = false
	for _, a := range m.order {
		if a.connection != nil {
			a.connection.breakUp()
		}
	}
	if f := m.framework; f != nil && f.stream != nil {
		f.stream.connection.breakUp()
	}
	m.world.after(m.world.between(time.Second, 30*time.Second), "elect master", m.elect)
}

// giveUpAgents marks the agents as unreachable that have not registered again after a failover.
func (m *masterNode) giveUpAgents(term int) {
	if term != m.term || !m.leads {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(m.registry)) {
		if m.agents[id] == nil {
			m.unreachable[id] = true
		}
	}
}

// subscribe handles SUBSCRIBE, which replaces an earlier subscription of the framework.
func (m *masterNode) subscribe(s *subscriptionStream, call *scheduler.Call) {
	if !m.leads {
		s.connection.breakUp()
		return
	}
	info := call.GetSubscribe().GetFrameworkInfo()
	id := info.GetID().GetValue()
	if id == "" {
		m.nextFramework++
		id = fmt.Sprintf("framework-%d", m.nextFramework)
	}
	if f := m.framework; f != nil {
		m.removeOffers(func(*offer) bool { return true })
		if f.stream != nil {
			f.stream.connection.breakUp()
		}
	}
	s.framework = mesos.FrameworkID{Value: id}
	m.framework = &simulatedFramework{id: id, stream: s, roles: info.Roles, suppressed: map[string]bool{}}
	for _, role := range call.GetSubscribe().GetSuppressedRoles() {
		m.framework.suppressed[role] = true
	}
	m.filters.Remove(func(filterSlot) bool { return true })
	s.send(events.NewSubscribed(s.framework, 15*time.Second, nil))
}

// disconnect ends the subscription that used a connection.
func (m *masterNode) disconnect(c *connection) {
	if f := m.framework; f != nil && f.stream != nil && f.stream.connection == c {
		f.stream = nil
		m.removeOffers(func(*offer) bool { return true })
	}
}

// receive handles a call of the scheduler.
func (m *masterNode) receive(c *connection, call *scheduler.Call) {
	f := m.framework
	if !m.leads || f == nil || f.stream == nil || f.stream.connection != c {
		c.breakUp() // 403: not subscribed
		return
	}
	switch call.GetType() {
	case scheduler.Call_ACCEPT:
		m.accept(call.GetAccept())
	case scheduler.Call_DECLINE:
		m.decline(call.GetDecline().GetOfferIDs(), call.GetDecline().GetFilters())
	case scheduler.Call_REVIVE:
		m.setSuppressed(call.GetRevive().GetRoles(), false)
		revived := call.GetRevive().GetRoles()
		m.filters.Remove(func(s filterSlot) bool { return len(revived) == 0 || slices.Contains(revived, s.role) })
	case scheduler.Call_SUPPRESS:
		m.setSuppressed(call.GetSuppress().GetRoles(), true)
	case scheduler.Call_ACKNOWLEDGE:
		m.acknowledge(call.GetAcknowledge())
	case scheduler.Call_KILL:
		m.kill(call.GetKill())
	case scheduler.Call_SHUTDOWN:
		m.shutdown(call.GetShutdown())
	case scheduler.Call_RECONCILE:
		m.reconcile(call.GetReconcile().GetTasks())
	}
}

func (m *masterNode) setSuppressed(roles []string, suppressed bool) {
	if len(roles) == 0 {
		roles = m.framework.roles
	}
	for _, role := range roles {
		m.framework.suppressed[role] = suppressed
	}
}

// accept launches the tasks of an ACCEPT, or drops them if an offer is void. It checks what Mesos checks: that they use no
// more than was offered.
func (m *masterNode) accept(call *scheduler.Call_Accept) {
	var infos []mesos.TaskInfo
	for i := range call.Operations {
		infos = append(infos, call.Operations[i].GetLaunch().GetTaskInfos()...)
	}
	m.world.checks.checkAccepted(infos)
	var offered []mesos.Resource
	var agent *registeredAgent
	valid := true
	for _, id := range call.OfferIDs {
		o := m.offers[id.Value]
		if o == nil || agent != nil && agent != o.agent {
			valid = false
			continue
		}
		agent = o.agent
		offered = append(offered, o.resources...)
	}
	taken := m.takeOffers(call.OfferIDs)
	if agent != nil {
		agent.unused = nil
	}
	if !valid || len(taken) == 0 {
		for i := range infos {
			m.sendStatus(infos[i].TaskID.Value, infos[i].AgentID.Value, mesos.TASK_DROPPED, mesos.REASON_INVALID_OFFERS)
		}
		return
	}
	rest := offered
	for i := range infos {
		all := slices.Concat(infos[i].Resources, infos[i].GetExecutor().GetResources())
		if !resource.Contains(rest, all) {
			m.world.failf("task %s takes %v, its offers have %v left", infos[i].TaskID.Value, all, rest)
			return
		}
		rest = resource.Subtract(rest, all)
		m.tasks[infos[i].TaskID.Value] = &masterTask{id: infos[i].TaskID.Value, agent: agent.id, resources: all, state: mesos.TASK_STAGING}
		m.launch(agent, &infos[i], all)
	}
	m.addFilter(agent, taken[0].role, rest, call.GetFilters())
}

// filterSlot identifies the resources that a filter refuses: an agent's, offered to a role.
type filterSlot struct{ agent, role string }

func (m *masterNode) decline(ids []mesos.OfferID, filters *mesos.Filters) {
	for _, o := range m.takeOffers(ids) {
		m.addFilter(o.agent, o.role, o.resources, filters)
	}
}

func (m *masterNode) addFilter(a *registeredAgent, role string, refused []mesos.Resource, f *mesos.Filters) {
	seconds := 5.0
	if f.GetRefuseSeconds() > 0 {
		seconds = f.GetRefuseSeconds()
	}
	m.filters.Add(filterSlot{a.id, role}, refused, m.world.monotonic().Add(time.Duration(seconds*float64(time.Second))))
}

// takeOffers removes offers that are answered.
func (m *masterNode) takeOffers(ids []mesos.OfferID) (taken []*offer) {
	for _, id := range ids {
		if o := m.offers[id.Value]; o != nil {
			taken = append(taken, o)
			o.agent.free = nil
			delete(m.offers, id.Value)
		}
	}
	return taken
}

// removeOffers removes offers without an event, and returns their ids.
func (m *masterNode) removeOffers(which func(*offer) bool) (ids []string) {
	for _, id := range slices.Sorted(maps.Keys(m.offers)) {
		if o := m.offers[id]; which(o) {
			o.agent.free = nil
			delete(m.offers, id)
			ids = append(ids, id)
		}
	}
	return ids
}

// rescind withdraws the offers of an agent.
func (m *masterNode) rescind(a *registeredAgent) {
	for _, id := range m.removeOffers(func(o *offer) bool { return o.agent == a }) {
		m.send(events.NewRescind(mesos.OfferID{Value: id}))
	}
}

// send sends an event to the framework, if it is connected.
func (m *masterNode) send(ev *scheduler.Event) {
	if f := m.framework; f != nil && f.stream != nil {
		f.stream.send(ev)
	}
}

// allocate offers what is free, in the manner of Mesos's allocator: everything of an agent to one role.
func (m *masterNode) allocate(term int) {
	w := m.world
	if term != m.term || !m.leads {
		return
	}
	w.after(w.plan.allocate, "allocate", func() { m.allocate(term) })
	f := m.framework
	if f == nil || f.stream == nil {
		return
	}
	for _, a := range m.order {
		if a.connection == nil {
			continue
		}
		if a.free == nil {
			a.free = m.freeOf(a)
		}
		if len(a.free) == 0 || resource.SumScalar(a.free, "cpus") < offers.MinCPUs || resource.SumScalar(a.free, "mem") < offers.MinMemMiB {
			continue
		}
		var candidates []string
		for _, name := range f.roles {
			if !f.suppressed[name] && !m.filters.Refuses(filterSlot{a.id, name}, a.free, w.monotonic()) {
				candidates = append(candidates, name)
			}
		}
		if len(candidates) == 0 {
			continue
		}
		to := candidates[0]
		if len(candidates) > 1 {
			to = candidates[w.random.IntN(len(candidates))]
		}
		m.nextOffer++
		o := &offer{id: fmt.Sprintf("offer-%d", m.nextOffer), role: to, agent: a, resources: a.free}
		m.offers[o.id] = o
		a.free = []mesos.Resource{}
		m.send(events.NewOffers(mesos.Offer{
			ID: mesos.OfferID{Value: o.id}, FrameworkID: mesos.FrameworkID{Value: f.id}, AgentID: mesos.AgentID{Value: a.id}, Hostname: a.node.host,
			Resources: o.resources, Attributes: a.node.attributes, AllocationInfo: &mesos.Resource_AllocationInfo{Role: &o.role},
		}))
		if w.chance(w.plan.rescind, "offer rescinded") {
			w.after(w.between(0, 200*time.Millisecond), "rescind", func() {
				if m.term == term && m.offers[o.id] == o {
					m.rescind(a)
				}
			})
		}
	}
}

// freeOf returns what an agent has that is neither used nor offered.
func (m *masterNode) freeOf(a *registeredAgent) []mesos.Resource {
	if a.unused == nil {
		var used []mesos.Resource
		for _, t := range m.tasks {
			if t.agent == a.id && !events.IsTerminal(t.state) {
				used = append(used, t.resources...)
			}
		}
		a.unused = subtract(a.total, used)
	}
	var offered []mesos.Resource
	for _, o := range m.offers {
		if o.agent == a {
			offered = append(offered, o.resources...)
		}
	}
	if len(offered) == 0 {
		return a.unused
	}
	return subtract(a.unused, offered)
}

// containsFree is resource.Contains, faster for what was free when it was refused and still is.
func containsFree(refused, free []mesos.Resource) bool {
	return len(free) > 0 && len(refused) == len(free) && &refused[0] == &free[0] || resource.Contains(refused, free)
}

// subtract returns resources without others, never nil.
func subtract(from, what []mesos.Resource) []mesos.Resource {
	return append([]mesos.Resource{}, resource.Subtract(from, what)...)
}

// toAgent sends a message to an agent. It is lost if the agent is disconnected.
func (m *masterNode) toAgent(a *registeredAgent, what string, act func(*agentNode)) {
	if a == nil || a.connection == nil {
		return
	}
	a.connection.send(fromMaster, what, func() { act(a.node) })
	a.node.maybeBreak()
}

// launch sends a task to an agent, which receives it also while it registers again. The launch may arrive after the
// connection broke, as long as the same master leads.
func (m *masterNode) launch(a *registeredAgent, info *mesos.TaskInfo, resources []mesos.Resource) {
	if a.connection == nil {
		return
	}
	n, term := a.node, m.term
	a.connection.sendMessage(fromMaster, message{
		what: "run task", sent: m.world.now, deliver: func() { n.run(info, resources) },
		deliverLate: func() {
			if m.leads && m.term == term && n.connection != nil {
				n.run(info, resources)
			}
		},
	})
	n.maybeBreak()
}

// shutdown passes a SHUTDOWN on to a registered agent, whether or not the executor or its task is known.
func (m *masterNode) shutdown(call *scheduler.Call_Shutdown) {
	m.toAgent(m.agents[call.AgentID.Value], "shutdown executor", func(n *agentNode) { n.shutdownExecutor(call.ExecutorID.Value) })
}

// kill passes a KILL on, or reports the state of a task that is not known.
func (m *masterNode) kill(call *scheduler.Call_Kill) {
	t := m.tasks[call.TaskID.Value]
	if t == nil {
		m.reconcile([]scheduler.Call_Reconcile_Task{{TaskID: call.TaskID, AgentID: call.AgentID}})
		return
	}
	m.toAgent(m.agents[t.agent], "kill task", func(n *agentNode) { n.kill(t.id, call.KillPolicy) })
}

// acknowledge passes an acknowledgement on to the agent.
func (m *masterNode) acknowledge(call *scheduler.Call_Acknowledge) {
	id, uuid := call.TaskID.Value, string(call.UUID)
	m.world.checks.checkAcknowledged(id, uuid)
	if t := m.tasks[id]; t != nil && events.IsTerminal(m.world.checks.stateOf(uuid)) {
		delete(m.tasks, id)
	}
	m.toAgent(m.agents[call.AgentID.Value], "acknowledge", func(n *agentNode) { n.acknowledge(id, uuid) })
}

// reconcile reports the states of tasks by Mesos's rules, or of all tasks.
func (m *masterNode) reconcile(tasks []scheduler.Call_Reconcile_Task) {
	if len(tasks) == 0 {
		for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
			m.sendReconciled(id, m.tasks[id].agent, m.tasks[id].state)
		}
		return
	}
	// Calls list tasks in the random order of a map.
	slices.SortFunc(tasks, func(a, b scheduler.Call_Reconcile_Task) int { return strings.Compare(a.TaskID.Value, b.TaskID.Value) })
	for _, q := range tasks {
		id, agent := q.TaskID.Value, q.GetAgentID().GetValue()
		switch t := m.tasks[id]; {
		case t != nil:
			m.sendReconciled(id, t.agent, t.state)
		case m.agents[agent] != nil:
			m.sendReconciled(id, agent, mesos.TASK_GONE)
		case m.unreachable[agent]:
			m.sendReconciled(id, agent, mesos.TASK_UNREACHABLE)
		case m.registry[agent]: // it may register again: no answer yet
		default:
			m.sendReconciled(id, agent, mesos.TASK_UNKNOWN)
		}
	}
}

func (m *masterNode) sendReconciled(task, agent string, state mesos.TaskState) {
	m.sendStatus(task, agent, state, mesos.REASON_RECONCILIATION)
}

// sendStatus sends a status that the master makes, which has no uuid.
func (m *masterNode) sendStatus(task, agent string, state mesos.TaskState, reason mesos.TaskStatus_Reason) {
	m.forwardStatus(agent, mesos.TaskStatus{TaskID: mesos.TaskID{Value: task}, State: &state, Reason: &reason, Source: mesos.SOURCE_MASTER.Enum()})
}

func (m *masterNode) forwardStatus(agent string, s mesos.TaskStatus) {
	s.AgentID = &mesos.AgentID{Value: agent}
	m.world.note("status", s.TaskID.Value, s.GetState().String(), len(s.UUID))
	m.send(events.NewUpdate(s))
}

// register admits an agent, with the tasks that it has named: again, or for the first time. It may have received others
// since it sent its message; the master removes those from its books if it was unreachable.
func (m *masterNode) register(n *agentNode, c *connection, named []namedTask) {
	if !m.leads {
		c.breakUp()
		return
	}
	if n.id == "" {
		n.id = fmt.Sprintf("agent-%s-%d", n.host, n.lives)
	}
	a := m.agents[n.id]
	if a == nil {
		a = &registeredAgent{node: n, id: n.id}
		m.agents[n.id] = a
		m.order = append(m.order, a)
	}
	wasUnreachable := m.unreachable[n.id]
	m.registry[n.id] = true
	delete(m.unreachable, n.id)
	if a.connection != nil && a.connection != c {
		a.connection.breakUp()
	}
	a.connection, a.total, a.unused, a.free = c, n.resources, nil, nil
	m.rescind(a)
	isNamed := map[string]bool{}
	for _, t := range named {
		known := m.tasks[t.id]
		isNamed[t.id] = true
		if known == nil {
			m.tasks[t.id] = &masterTask{id: t.id, agent: n.id, resources: t.resources, state: t.reported}
		} else if known.state == mesos.TASK_UNREACHABLE {
			known.state = t.reported
		}
		if wasUnreachable && !events.IsTerminal(t.reported) {
			m.sendStatus(t.id, n.id, t.reported, mesos.REASON_AGENT_REREGISTERED)
		}
	}
	// Tasks that had not reached the agent.
	for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
		if t := m.tasks[id]; t.agent == n.id && !isNamed[id] {
			if events.IsTerminal(t.state) {
				delete(m.tasks, id)
				continue
			}
			m.toAgent(a, "reconcile task", func(n *agentNode) { n.dropUnknown(id) })
		}
	}
	c.send(fromMaster, "registered", func() { n.registered(c) })
}

// updateResources replaces what an agent has, and rescinds its offers.
func (m *masterNode) updateResources(agent string, total []mesos.Resource) {
	if a := m.agents[agent]; a != nil {
		a.total = total
		m.rescind(a)
		a.unused, a.free = nil, nil
	}
}

// updateStatus handles a status of an agent: it is forwarded if the framework is connected, and otherwise repeated by the
// agent later.
func (m *masterNode) updateStatus(agent string, s mesos.TaskStatus) {
	if t := m.tasks[s.TaskID.Value]; t != nil && !events.IsTerminal(t.state) {
		t.state = s.GetState()
		if a := m.agents[agent]; a != nil {
			a.unused, a.free = nil, nil
		}
	}
	m.forwardStatus(agent, s)
}

// agentDisconnected notes that an agent's connection broke. The agent is unreachable if it does not return in time.
func (m *masterNode) agentDisconnected(c *connection) {
	i := slices.IndexFunc(m.order, func(a *registeredAgent) bool { return a.connection == c })
	if i < 0 {
		return
	}
	a := m.order[i]
	a.connection = nil
	m.rescind(a)
	term := m.term
	m.world.after(m.world.plan.pingTimeout, "agent does not answer", func() {
		if m.term == term && m.leads && m.agents[a.id] == a && a.connection == nil {
			m.loseAgent(a)
		}
	})
}

// loseAgent marks an agent as unreachable, with its tasks.
func (m *masterNode) loseAgent(a *registeredAgent) {
	delete(m.agents, a.id)
	m.order = slices.DeleteFunc(m.order, func(o *registeredAgent) bool { return o == a })
	m.unreachable[a.id] = true
	m.world.note("agent unreachable", a.id, "", 0)
	for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
		if t := m.tasks[id]; t.agent == a.id {
			if !events.IsTerminal(t.state) {
				m.sendStatus(id, a.id, mesos.TASK_UNREACHABLE, mesos.REASON_AGENT_REMOVED)
			}
			delete(m.tasks, id)
		}
	}
	m.send(events.NewFailure(mesos.AgentID{Value: a.id}, nil, nil))
}

// listAgents is the answer to GET_AGENTS.
func (m *masterNode) listAgents() (list []mastermsg.Response_GetAgents_Agent) {
	for _, a := range m.order {
		list = append(list, mastermsg.Response_GetAgents_Agent{
			AgentInfo: mesos.AgentInfo{ID: &mesos.AgentID{Value: a.id}, Hostname: a.node.host, Attributes: a.node.attributes},
			Active:    a.connection != nil, TotalResources: a.total,
		})
	}
	return list
}

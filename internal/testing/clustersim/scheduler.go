package clustersim

import (
	"context"
	"errors"
	"io"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/clusterview"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
	"mesos-gpu/marathon/control"
)

// schedulerNode is the host of the scheduler: it starts a new process whenever the old one has died.
type schedulerNode struct {
	world *World
	cut   partition
	log   logrus.FieldLogger
	// counters is shared by all processes, because counters only grow.
	counters *metrics.SchedulerCounters
	// process is the leading process, or nil. Without standbys it is the only one.
	process *process
}

func newScheduler(w *World) *schedulerNode {
	log := logrus.New()
	log.SetOutput(io.Discard)
	log.SetLevel(logrus.PanicLevel)
	return &schedulerNode{world: w, log: silentLog{log, logrus.NewEntry(log)}, counters: metrics.NewSchedulerCounters()}
}

// silentLog is a log without output, which stores no fields.
type silentLog struct {
	logrus.FieldLogger
	entry *logrus.Entry
}

func (l silentLog) WithField(string, any) *logrus.Entry    { return l.entry }
func (l silentLog) WithFields(logrus.Fields) *logrus.Entry { return l.entry }
func (l silentLog) WithError(error) *logrus.Entry          { return l.entry }

// role is the scheduler's default role. In some worlds guestRole is the other one.
const (
	role      = "batch"
	guestRole = "guests"
)

// deservedGPUs returns what the roles deserve, by name; nothing in a world with one role.
func (w *World) deservedGPUs() map[string]int {
	if !w.plan.lends {
		return nil
	}
	gpus := 0
	for _, a := range w.agents {
		gpus += a.countGPUs()
	}
	return map[string]int{role: gpus * w.plan.batch / 100, guestRole: gpus * w.plan.guests / 100}
}

// roles returns the names of the scheduler's roles.
func (w *World) roles() []string {
	names := []string{role}
	if w.plan.lends {
		names = append(names, guestRole)
	}
	if w.plan.hasOwners() {
		names = append(names, groupRole)
	}
	return names
}

func (n *schedulerNode) settings() sched.SchedulerSettings {
	s := sched.SchedulerSettings{UnreachableTimeout: 5 * time.Minute, MaxAttempts: 1000, PredictRunTimes: true, Accounting: n.world.accounting != nil}
	s.Policy = sched.Policy{Policy: placement.Policy{Roles: make([]queue.Role, len(n.world.roles()))}}
	for i, name := range n.world.roles() {
		r := &s.Policy.Roles[i]
		r.Name = name
		n.world.users.limits.setIn(r)
		r.Budget = n.world.budgets[name]
		if deserved := n.world.deservedGPUs()[name]; deserved > 0 {
			r.Deserved = quota.Quota{quota.AllTypes: deserved}
		}
	}
	if n.world.plan.readers {
		s.Policy.NotificationTargets = notification.AllowedTargets{Enabled: true, WebhookHosts: job.FetchHosts{"*"}}
	}
	if n.world.plan.quota > 0 {
		s.Policy.Roles[0].Quota = quota.Quota{quota.AllTypes: n.world.plan.quota}
	}
	return s
}

// process is one run of the scheduler, from its start to its death.
type process struct {
	node  *schedulerNode
	world *World
	dead  bool
	// pausedUntil is when a stopped process (SIGSTOP) goes on. Until then it does nothing, and what it receives waits.
	pausedUntil time.Duration
	offset      time.Duration // of its wall clock
	loop        *leader.Loop
	// state is the loop's, known after the first batch.
	state  *sched.State
	client *master.Client
	// connection and session belong to the current subscription; nil without one. call waits for its result.
	connection *connection
	session    *master.DetachedSession
	call       *master.PendingCall
	// inbox has events, and requests the requests, that the next turn of the loop applies.
	inbox    []sched.Event
	requests []request
	nextTurn plannedStep
	// committed is the last commit whose ends are not accounted yet, nil without one.
	committed *journal.Change
	// apps is Marathon's control, nil without one.
	apps         *control.DetachedController
	nextAppsStep plannedStep
}

// request is a user's request to the loop. apply runs in the loop; reply gets its error once it is recorded.
type request struct {
	apply func(st *sched.State, apply func(sched.Event)) error
	reply func(err error)
}

// start starts a process, which restores the journal. It does nothing if a standby has been faster.
func (n *schedulerNode) start() {
	w := n.world
	if n.process != nil {
		return
	}
	if w.faulty && w.plan.clockJumps && w.random.IntN(3) == 0 {
		w.clockOffset += w.between(-5*time.Minute, 5*time.Minute)
		w.fault("clock jumped")
	}
	p := &process{node: n, world: w, offset: w.clockOffset}
	past, err := w.disk.restore()
	if err != nil {
		w.failf("the journal cannot be restored: %v", err)
		return
	}
	w.checks.checkRestored(&past)
	if w.plan.standbys {
		w.disk.follow(len(w.disk.behind))
		w.checks.compareStandby(&past)
	}
	p.client, err = master.New(master.ConnectionConfig{
		Master: "http://master:5050", Name: "mesos-gpu", User: "root", FrameworkID: past.FrameworkID, Roles: n.world.roles(),
		MinOffer: placement.DefaultOverhead(), FailoverTimeout: 7 * 24 * time.Hour, ExecutorPath: "/usr/bin/mesos-gpu", Log: n.log,
	})
	if err != nil {
		w.failf("no master client: %v", err)
		return
	}
	config := leader.LoopConfig{Sched: n.settings(), Counters: n.counters, Clock: p.clock, Log: n.log}
	p.loop = leader.NewLoop(config, past, w.disk.open(p), p.post)
	n.process = p
	w.checks.budgets.begin(p)
	w.note("scheduler started", past.FrameworkID, "", len(past.Jobs))
	w.after(w.delay(), "subscribe", p.subscribe)
	w.after(w.plan.tick, "tick", p.tick)
	w.after(time.Second, "list agents", p.listAgents)
	if w.apps != nil {
		w.after(w.delay(), "start apps", p.startApps)
	}
	if w.accounting != nil {
		p.confirmEnds(w.accounting.addEnds(p.loop.Model.AllEndedAttempts()))
		w.after(w.delay(), "feed budgets", p.feedBudgets)
	}
}

// clock is the process's clock. Like time.Now within one process, it does not jump; only the next process sees that the
// wall clock was set.
func (p *process) clock() time.Time { return p.world.monotonic().Add(p.offset) }

// kill ends the process at once. What it has sent may still arrive.
func (p *process) kill() {
	if p.dead {
		return
	}
	p.dead = true
	led := p.node.process == p
	p.world.note("scheduler killed", "", "", 0)
	if p.connection != nil {
		p.world.after(p.world.between(0, p.world.plan.slowest), "connection closes", p.connection.breakUp)
	}
	for _, r := range p.requests {
		r.reply(errKilled)
	}
	p.requests = nil
	if p.world.readers != nil {
		p.world.readers.closeStreams(p)
	}
	if led {
		p.node.process = nil
		p.world.after(p.world.between(100*time.Millisecond, 20*time.Second), "start scheduler", p.node.start)
	}
}

// sessionTimeout is how long ZooKeeper waits for a leader. A process learns within lossTimeout after it goes on that its
// session has expired, and ends its term.
const (
	sessionTimeout = 10 * time.Second
	lossTimeout    = 2 * time.Second
)

// pause stops the leading process for a time. If that is too long a standby leads; the process does not know it when it goes on.
func (n *schedulerNode) pause(length time.Duration) {
	w, p := n.world, n.process
	if p == nil {
		return
	}
	p.pausedUntil = max(p.pausedUntil, w.now+length)
	w.note("scheduler paused", length.String(), "", 0)
	w.after(w.between(sessionTimeout, sessionTimeout+lossTimeout), "session expires", func() {
		if p.dead || n.process != p || p.pausedUntil <= w.now {
			return
		}
		w.fault("standby leads")
		n.process = nil
		n.start()
		w.after(p.pausedUntil-w.now+w.between(0, lossTimeout), "session lost", p.kill)
	})
}

// waits reports whether the process is stopped. act then happens when it goes on.
func (p *process) waits(what string, act func()) bool {
	if p.pausedUntil <= p.world.now {
		return false
	}
	p.world.after(p.pausedUntil-p.world.now, what, act)
	return true
}

// tick makes the time known to the loop.
func (p *process) tick() {
	if !p.dead && !p.waits("tick", p.tick) {
		p.emit(sched.Tick{})
		p.world.after(p.world.plan.tick, "tick", p.tick)
	}
}

// emit passes an event to the loop, which applies it in its next turn.
func (p *process) emit(ev sched.Event) {
	p.inbox = append(p.inbox, ev)
	p.wake()
}

func (p *process) wake() { p.plan(&p.nextTurn, "turn", p.turn) }

// plannedStep is a step of a process that waits for its time, if it is planned.
type plannedStep struct{ isPlanned bool }

// plan makes a step happen soon, unless it is planned already. A stopped process does it when it goes on.
func (p *process) plan(s *plannedStep, what string, act func()) {
	if s.isPlanned || p.dead {
		return
	}
	s.isPlanned = true
	var happen func()
	happen = func() {
		if p.waits(what, happen) {
			return
		}
		if s.isPlanned = false; !p.dead {
			act()
		}
	}
	p.world.after(p.world.between(0, 20*time.Millisecond), what, happen)
}

// turn applies what has arrived as one batch: the events, then the requests.
func (p *process) turn() {
	if p.world.chance(p.world.plan.killAtTurn, "killed between batches") {
		p.kill()
		return
	}
	events, requests := p.inbox, p.requests
	p.inbox, p.requests = nil, nil
	for i, err := range p.runBatch(events, requests) {
		requests[i].reply(err)
	}
	p.wakeApps()
}

// runBatch applies events and requests as one batch, and returns the results of the requests.
func (p *process) runBatch(events []sched.Event, requests []request) []error {
	errs := make([]error, len(requests))
	err := p.loop.RunBatch(context.Background(), func(st *sched.State, applyToState func(sched.Event)) {
		p.state = st
		apply := func(ev sched.Event) {
			applyToState(ev)
			if p.node.process == p {
				p.world.checks.budgets.observe(p, ev)
			}
		}
		for _, ev := range events {
			p.noteEvent(ev)
			apply(ev)
		}
		for i, r := range requests {
			errs[i] = r.apply(st, apply)
		}
	})
	switch {
	case errors.Is(err, journal.ErrFenced) && p.node.process != p:
		p.world.fault("commit fenced")
		p.kill()
	case err != nil && !errors.Is(err, errKilled):
		p.world.failf("the loop ended: %v", err)
	}
	if p.dead {
		for i := range errs {
			errs[i] = errKilled // the connection breaks: the user cannot know
		}
		return errs
	}
	if p.node.process == p {
		p.world.checks.checkTurn(p)
	}
	p.recordEnds()
	p.sendNext()
	return errs
}

func (p *process) noteEvent(ev sched.Event) {
	switch e := ev.(type) {
	case sched.TaskUpdate:
		p.world.note("apply update", e.TaskID, string(e.State), len(e.UUID))
	case sched.Subscribed:
		p.world.note("apply subscribed", e.FrameworkID, "", 0)
	case sched.Disconnected:
		p.world.note("apply disconnected", "", "", 0)
	case sched.AcceptFailed:
		p.world.note("apply accept failed", e.TaskIDs[0], "", len(e.TaskIDs))
	case sched.OfferRescinded:
		p.world.note("apply rescinded", e.OfferID, "", 0)
	case sched.AgentLost:
		p.world.note("apply agent lost", e.AgentID, "", 0)
	}
}

// post takes an operation whose cause is recorded.
func (p *process) post(op sched.Operation) {
	if p.dead {
		return
	}
	p.world.note("post", op.String(), "", 0)
	if p.world.chance(p.world.plan.killAtPost, "killed between operations") {
		p.kill()
		return
	}
	if question, ok := op.(sched.InspectAgent); ok {
		p.inspectAgent(question)
		return
	}
	p.client.PostOperation(op)
}

// inspectAgent asks an agent which tasks it has. The question is lost if the agent cannot be reached.
func (p *process) inspectAgent(question sched.InspectAgent) {
	w := p.world
	for _, n := range w.agents {
		if n.id != question.AgentID {
			continue
		}
		w.after(w.delay(), "inspect agent", func() {
			if n.down || n.id != question.AgentID || n.cut.until > w.now || p.node.cut.until > w.now {
				return
			}
			answer := sched.AgentInspected{AgentID: n.id, At: question.At, Tasks: n.inspectTasks()}
			w.after(w.delay(), "agent inspected", func() {
				if !p.dead {
					p.emit(answer)
				}
			})
		})
	}
}

// subscribe opens a connection to the leading master.
func (p *process) subscribe() {
	if p.dead || p.connection != nil || p.waits("subscribe", p.subscribe) {
		return
	}
	w := p.world
	if p.node.cut.until > w.now || !w.master.leads {
		w.after(w.between(250*time.Millisecond, 15*time.Second), "subscribe", p.subscribe)
		return
	}
	c := &connection{world: w, cut: &p.node.cut}
	session, call := p.client.OpenDetached(p.emit)
	p.connection, p.session = c, session
	c.onBreak = func() { p.endSession(c) }
	stream := &subscriptionStream{connection: c, receive: func(ev *scheduler.Event) { p.receive(c, ev) }}
	c.send(toMaster, "SUBSCRIBE", func() { w.master.subscribe(stream, call) })
}

// endSession ends the session of a connection that broke, and subscribes again.
func (p *process) endSession(c *connection) {
	if p.waits("session ends", func() { p.endSession(c) }) {
		return
	}
	p.world.master.disconnect(c)
	if p.dead || p.connection != c {
		return
	}
	p.session.Close()
	p.connection, p.session, p.call = nil, nil, nil
	p.world.after(p.world.between(250*time.Millisecond, 5*time.Second), "subscribe", p.subscribe)
}

// receive handles an event of the master.
func (p *process) receive(c *connection, ev *scheduler.Event) {
	if p.dead || p.connection != c || p.waits("event", func() { p.receive(c, ev) }) {
		return
	}
	if err := p.session.HandleEvent(ev); err != nil {
		p.world.note("session ends", err.Error(), "", 0)
		c.breakUp()
		return
	}
	p.sendNext()
}

// sendNext sends the next call, if none waits for its result.
func (p *process) sendNext() {
	if p.session == nil || p.call != nil {
		return
	}
	if p.call = p.session.NextCall(p.world.monotonic()); p.call != nil {
		p.send(p.connection, p.call, 1)
	}
}

// callTries is how often a call is sent at most before the session ends.
const callTries = 5

var errNoAnswer = errors.New("the connection broke before the answer")

// send sends a call. Calls other than ACCEPT are repeated if there is no answer: the master may have received them.
func (p *process) send(c *connection, call *master.PendingCall, try int) {
	w := p.world
	var finish func(result error)
	finish = func(result error) {
		if p.dead || p.connection != c || p.call != call || p.waits("answer", func() { finish(result) }) {
			return
		}
		if result != nil && call.Call.GetType() != scheduler.Call_ACCEPT && try < callTries {
			w.after(w.between(250*time.Millisecond, 4*time.Second), "repeat call", func() {
				if !p.dead && p.connection == c { // a call that is sent while the process is stopped was sent before
					p.send(c, call, try+1)
				}
			})
			return
		}
		next, err := p.session.FinishCall(call, result)
		if p.call = next; err != nil {
			w.note("session ends", err.Error(), "", 0)
			c.breakUp()
			return
		}
		if next != nil {
			p.send(c, next, 1)
			return
		}
		p.sendNext()
	}
	what := call.Call.GetType().String()
	if w.chance(w.plan.loseCall, "call lost: "+what) {
		w.after(w.between(time.Millisecond, time.Second), "no answer", func() { finish(errNoAnswer) })
		return
	}
	loseAnswer := w.chance(w.plan.loseAnswer, "answer lost: "+what)
	c.send(toMaster, what, func() {
		w.master.receive(c, call.Call)
		if loseAnswer {
			w.after(w.between(time.Millisecond, time.Second), "no answer", func() { finish(errNoAnswer) })
			return
		}
		w.after(w.delay(), "answer", func() { finish(nil) })
	})
	if w.chance(w.plan.breakSession, "subscription broken") {
		c.breakUp()
	}
}

// listAgents lists the agents now and then.
func (p *process) listAgents() {
	if p.dead || p.waits("list agents", p.listAgents) {
		return
	}
	w := p.world
	w.after(w.between(5*time.Second, 20*time.Second), "list agents", p.listAgents)
	if p.node.cut.until <= w.now && w.master.leads {
		p.emit(sched.AgentsListed{Agents: clusterview.SchedulableAgents(p.client.ConvertAgents(w.master.listAgents()))})
	}
}

// cutNetwork cuts the network between the scheduler and the master for a time.
func (n *schedulerNode) cutNetwork(length time.Duration) {
	n.cut.until = max(n.cut.until, n.world.now+length)
	if n.process != nil {
		n.process.connection.watch(length, heartbeatTimeout)
	}
}

// healNetwork ends a partition. Waiting messages arrive when it would have ended.
func (n *schedulerNode) healNetwork() { n.cut.until = min(n.cut.until, n.world.now) }

// subscriptionStream is the master's end of a subscription.
type subscriptionStream struct {
	connection *connection
	framework  mesos.FrameworkID
	receive    func(ev *scheduler.Event)
}

func (s *subscriptionStream) send(ev *scheduler.Event) {
	s.connection.send(fromMaster, ev.GetType().String(), func() { s.receive(ev) })
}

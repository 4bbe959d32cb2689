package clustersim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	executormsg "github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/executor"
	"mesos-gpu/executor/task"
	"mesos-gpu/internal/minimesos/events"
)

// executorNode is the container of one task, with two processes: the executor, which is the real one, and the task. The
// agent's part of it survives a restart of the agent, as Mesos checkpoints it.
type executorNode struct {
	world *World
	agent *agentNode
	task  *agentTask
	info  *mesos.TaskInfo
	// process is the executor's process, nil until it has started. gone is whether the container has ended.
	process *executor.DetachedExecutor
	gone    bool
	// cut is a cut between executor and agent. connection is nil while the executor has none.
	cut        partition
	connection *connection
	// sending is the update whose answer the executor awaits, nil for none.
	sending *executormsg.Call
	// wake is when the executor's next deadline is planned, 0 for none.
	wake time.Duration
	// child is the task's process.
	child childProcess

	// created are the UUIDs of the statuses that the executor has created, in order.
	created []string

	// stream is the connection of the executor's subscription as the agent sees it, nil without one. launched is whether the
	// agent has sent the task, stored the UUIDs of the statuses that it has stored, in order, and final whether one of them
	// is the last.
	stream   *connection
	launched bool
	stored   []string
	final    bool
}

// childProcess is the process of a task.
type childProcess struct {
	state childState
	// killAt is the earliest time of SIGKILL: the end of the shortest grace period of all kills. It is 0 without a kill.
	killAt time.Duration
	// deaf is whether the process ignores SIGTERM.
	deaf bool
}

type childState int

const (
	childNone childState = iota
	childStarting
	childRuns
	childEnded
)

// The directions of a connection between an executor and its agent.
const (
	toAgent   = toMaster
	fromAgent = fromMaster
)

// startExecutor creates the container of a task, whose executor subscribes soon.
func (n *agentNode) startExecutor(t *agentTask, info *mesos.TaskInfo) {
	x := &executorNode{world: n.world, agent: n, task: t, info: info}
	x.child.deaf = n.world.random.IntN(4) == 0
	n.executors[t.id] = x
	n.world.after(n.world.between(10*time.Millisecond, 2*time.Second), "executor starts", x.start)
}

func (x *executorNode) start() {
	if x.gone {
		return
	}
	w := x.world
	x.process = executor.NewDetached(executor.ExecutorConfig{
		FrameworkID: "framework", ExecutorID: x.task.id, ContainerID: x.task.id, Checkpoint: true, Log: w.scheduler.log,
		ShutdownGrace: x.task.grace + shutdownMargin,
	}, executor.DetachedEffects{
		Now: w.monotonic, Random: func(below time.Duration) time.Duration { return w.between(0, below) },
		NewUUID:     x.newUUID,
		StartTask:   func(task.TaskSpec) { x.startChild() },
		CancelStart: x.cancelChild, Signal: x.signalChild, EndTask: func() { x.child.state = childEnded },
	})
	x.connect()
}

func (x *executorNode) newUUID() []byte {
	x.world.checks.nextUUID++
	uuid := fmt.Sprintf("%016d", x.world.checks.nextUUID)
	x.created = append(x.created, uuid)
	return []byte(uuid)
}

// connect opens a connection to the agent and subscribes.
func (x *executorNode) connect() {
	w := x.world
	if x.gone || x.connection != nil {
		return
	}
	call := x.process.Subscribe()
	if x.agent.down || x.cut.until > w.now {
		x.reconnect()
		return
	}
	c := &connection{world: w, cut: &x.cut}
	c.onBreak = func() { x.disconnected(c) }
	x.connection = c
	c.send(toAgent, "executor subscribes", func() { x.agent.subscribeExecutor(x, c, call.Subscribe) })
}

func (x *executorNode) disconnected(c *connection) {
	if x.stream == c {
		x.stream = nil
	}
	if x.gone || x.connection != c {
		return
	}
	x.connection = nil
	if call := x.sending; call != nil {
		x.world.after(x.world.delay(), "no answer", func() { x.finishUpdate(call, errNoAnswer) })
	}
	x.reconnect()
}

// reconnect subscribes again after the executor's pause.
func (x *executorNode) reconnect() {
	if pause := x.process.HandleDisconnect(); pause > 0 {
		x.world.after(pause, "executor connects", x.connect)
	}
	x.advance()
}

// receive handles an event of the agent.
func (x *executorNode) receive(c *connection, ev executormsg.Event) {
	if x.gone || x.connection != c {
		return
	}
	x.process.HandleEvent(ev)
	x.advance()
}

// advance does what follows from the executor's last step: it sends an update, plans the next deadline, or ends the process.
func (x *executorNode) advance() {
	w := x.world
	if x.gone {
		return
	}
	if x.process.IsDone() {
		w.note("executor ends", x.task.id, "", 0)
		x.end(mesos.REASON_EXECUTOR_TERMINATED, "the executor has ended")
		return
	}
	if at := x.process.NextDeadline(); !at.IsZero() {
		if due := max(w.now, at.Sub(w.epoch)); x.wake == 0 || due < x.wake {
			x.wake = due
			w.after(due-w.now, "executor's deadline", func() { x.reachDeadline(due) })
		}
	}
	x.sendUpdate()
}

func (x *executorNode) reachDeadline(planned time.Duration) {
	if x.gone || x.wake != planned {
		return
	}
	x.wake = 0
	x.process.HandleDeadlines()
	x.advance()
}

// sendUpdate sends the next status update, unless one awaits its answer.
func (x *executorNode) sendUpdate() {
	w, c := x.world, x.connection
	if x.sending != nil || c == nil {
		return
	}
	call := x.process.NextUpdate()
	if call == nil {
		return
	}
	x.sending = call
	finish := func(err error) func() { return func() { x.finishUpdate(call, err) } }
	if w.chance(w.plan.loseUpdate, "executor's update lost") {
		w.after(w.between(time.Millisecond, time.Second), "no answer", finish(errNoAnswer))
		return
	}
	loseAnswer := w.chance(w.plan.loseUpdate, "answer to executor lost")
	c.send(toAgent, "executor's update", func() {
		switch err := x.agent.updateExecutor(x, c, &call.Update.Status); {
		case err != nil:
			w.after(w.delay(), "update refused", finish(err))
		case loseAnswer:
			w.after(w.between(time.Millisecond, time.Second), "no answer", finish(errNoAnswer))
		default:
			w.after(w.delay(), "update accepted", finish(nil))
		}
	})
}

func (x *executorNode) finishUpdate(call *executormsg.Call, err error) {
	if x.gone || x.sending != call {
		return
	}
	pause := x.process.FinishUpdate(call, err)
	x.world.after(pause, "next update", func() {
		if x.sending == call {
			x.sending = nil
			if !x.gone {
				x.sendUpdate()
			}
		}
	})
}

// startChild starts the task's process.
func (x *executorNode) startChild() {
	w := x.world
	x.child.state = childStarting
	w.after(w.between(10*time.Millisecond, time.Second), "task's process starts", func() {
		if x.gone || x.child.state != childStarting {
			return
		}
		x.child.state = childRuns
		w.note("task's process runs", x.task.id, "", 0)
		if o := w.users.outcomeOf(x.task.id); o.length > 0 {
			status := task.ExitStatus{}
			if o.state == mesos.TASK_FAILED {
				status.Code = 1
			}
			w.after(o.length, "task's process ends", func() { x.endChild(status) })
		}
		x.process.TaskStarted(childHandle{}, nil)
		x.advance()
	})
}

// cancelChild ends a start in progress.
func (x *executorNode) cancelChild() {
	if x.child.state != childStarting {
		return
	}
	x.child.state = childEnded
	x.world.after(x.world.delay(), "start cancelled", func() {
		if !x.gone {
			x.process.TaskStarted(nil, context.Canceled)
			x.advance()
		}
	})
}

// endChild ends the task's process.
func (x *executorNode) endChild(status task.ExitStatus) {
	if x.gone || x.child.state != childRuns {
		return
	}
	x.child.state = childEnded
	x.world.note("task's process ended", x.task.id, status.String(), 0)
	x.world.after(x.world.delay(), "exit status", func() {
		if !x.gone {
			x.process.TaskEnded(status)
			x.advance()
		}
	})
}

// signalChild sends a signal to the task's process. It may be lost, as when an engine restarts.
func (x *executorNode) signalChild(sig syscall.Signal) {
	w := x.world
	w.note("signal", x.task.id, sig.String(), 0)
	if early := x.child.killAt - w.now; sig == syscall.SIGKILL && (x.child.killAt == 0 || early > 0) {
		w.failf("%s gets SIGKILL %s before the end of its grace period", x.task.id, early)
	}
	if sig == syscall.SIGTERM && x.child.killAt <= w.now {
		w.failf("%s gets SIGTERM after the end of its grace period", x.task.id)
	}
	if w.chance(w.plan.loseUpdate, "signal lost") {
		return
	}
	switch {
	case sig == syscall.SIGKILL:
		w.after(w.delay(), "killed by SIGKILL", func() { x.endChild(task.ExitStatus{Signal: sig}) })
	case !x.child.deaf:
		w.after(w.between(0, x.task.grace), "ends after SIGTERM", func() { x.endChild(task.ExitStatus{Code: 0}) })
	}
}

// childHandle is the task's process as the executor has it.
type childHandle struct{}

func (childHandle) Wait(context.Context) (task.ExitStatus, error) { panic("not called") }
func (childHandle) Signal(context.Context, syscall.Signal) error  { panic("not called") }

// expectKill notes that the executor has received a kill. Its task must end: by SIGTERM, or by SIGKILL after the grace period.
func (x *executorNode) expectKill(grace time.Duration) {
	w := x.world
	if at := w.now + grace; x.child.killAt == 0 || at < x.child.killAt {
		x.child.killAt = max(at, 1)
	}
	w.after(grace+killMargin, "grace period is over", func() {
		if !x.gone && x.child.state == childRuns {
			w.failf("%s runs %s after the end of its grace period", x.task.id, killMargin)
		}
	})
}

// killMargin is how long a task may run after its grace period: one SIGKILL may be lost, and is repeated.
const killMargin = time.Minute

// die ends both processes at once, as when the executor is killed: its container ends with it.
func (x *executorNode) die() {
	x.world.note("executor killed", x.task.id, "", 0)
	x.end(mesos.REASON_EXECUTOR_TERMINATED, "the executor was killed")
}

// end ends the container. The agent reports the end of the task if the executor did not; while the agent is down it learns
// of it later.
func (x *executorNode) end(reason mesos.TaskStatus_Reason, why string) {
	x.gone, x.child.state = true, childEnded
	if x.connection != nil {
		x.connection.breakUp()
	}
	x.world.after(x.world.delay(), "container ended", func() {
		if !x.agent.down {
			x.agent.removeExecutor(x, reason, why)
		}
	})
}

// subscribeExecutor handles SUBSCRIBE of an executor: it stores the statuses that the executor repeats, and sends the task.
func (n *agentNode) subscribeExecutor(x *executorNode, c *connection, call *executormsg.Call_Subscribe) {
	w := n.world
	if n.down || n.executors[x.task.id] != x || x.gone {
		c.breakUp()
		return
	}
	if x.stream != nil && x.stream != c {
		x.stream.breakUp()
	}
	x.stream = c
	w.note("executor subscribed", x.task.id, "", len(call.UnacknowledgedUpdates))
	n.toExecutor(x, executormsg.Event{Type: executormsg.Event_SUBSCRIBED, Subscribed: &executormsg.Event_Subscribed{
		FrameworkInfo: mesos.FrameworkInfo{Capabilities: []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_TASK_KILLING_STATE}}},
		ContainerID:   &mesos.ContainerID{Value: x.task.id},
	}})
	for i := range call.UnacknowledgedUpdates {
		n.storeStatus(x, &call.UnacknowledgedUpdates[i].Status)
	}
	switch {
	case !x.launched:
		x.launched = true
		n.toExecutor(x, executormsg.Event{Type: executormsg.Event_LAUNCH, Launch: &executormsg.Event_Launch{Task: *x.info}})
	case len(x.stored) == 0 && len(call.UnacknowledgedTasks) == 0: // LAUNCH was lost
		n.endTask(x, mesos.TASK_DROPPED, mesos.REASON_AGENT_RESTARTED, "the executor did not receive the task")
		x.end(mesos.REASON_EXECUTOR_TERMINATED, "the executor has no task")
	}
}

// toExecutor sends an event to a subscribed executor.
func (n *agentNode) toExecutor(x *executorNode, ev executormsg.Event) {
	c := x.stream
	c.send(fromAgent, "to executor: "+ev.GetType().String(), func() {
		if kind := ev.GetType(); (kind == executormsg.Event_KILL || kind == executormsg.Event_SHUTDOWN) && !x.gone && x.connection == c {
			x.noteKill(ev.Kill)
		}
		x.receive(c, ev)
	})
	if n.world.chance(n.world.plan.breakExecutor, "executor's connection broken") {
		c.breakUp()
	}
}

// noteKill notes the grace period of a KILL that the executor receives, or of its SHUTDOWN, for which kill is nil.
func (x *executorNode) noteKill(kill *executormsg.Event_Kill) {
	grace := x.task.grace
	if p := kill.GetKillPolicy().GetGracePeriod(); p != nil {
		grace = time.Duration(p.Nanoseconds)
	}
	x.expectKill(grace)
}

var errNotSubscribed = errors.New("403: the executor is not subscribed")

// updateExecutor handles UPDATE of an executor.
func (n *agentNode) updateExecutor(x *executorNode, c *connection, s *mesos.TaskStatus) error {
	if n.down || x.stream != c {
		return errNotSubscribed
	}
	n.storeStatus(x, s)
	return nil
}

// storeStatus stores a status once, however often the executor sends it, and acknowledges it each time.
func (n *agentNode) storeStatus(x *executorNode, s *mesos.TaskStatus) {
	w, uuid, state := n.world, string(s.UUID), s.GetState()
	if !slices.Contains(x.stored, uuid) {
		x.stored = append(x.stored, uuid)
		if x.final {
			w.failf("%s has %s after its final status", x.task.id, state)
		}
		if events.IsTerminal(state) {
			if x.child.state == childStarting || x.child.state == childRuns {
				w.failf("%s is %s, and its process runs", x.task.id, state)
			}
			x.final, x.task.ended = true, true
			w.checks.taskEnded(x.task.id, state)
		}
		x.task.reported = state
		w.checks.updates[uuid] = agentStatus{x.task.id, state}
		n.addUpdate(*s)
	}
	n.toExecutor(x, executormsg.Event{Type: executormsg.Event_ACKNOWLEDGED, Acknowledged: &executormsg.Event_Acknowledged{
		TaskID: s.TaskID, UUID: s.UUID,
	}})
}

// removeExecutor forgets a container that has ended.
func (n *agentNode) removeExecutor(x *executorNode, reason mesos.TaskStatus_Reason, why string) {
	if n.executors[x.task.id] != x {
		return
	}
	delete(n.executors, x.task.id)
	if x.process != nil && x.process.IsDone() && (!x.final || !slices.Equal(x.stored, x.created)) {
		n.world.failf("the executor of %s has ended after %d statuses, the agent has %d (final: %v)", x.task.id, len(x.created), len(x.stored), x.final)
	}
	n.endTask(x, mesos.TASK_FAILED, reason, why)
}

// endTask reports the end of a task whose executor did not report it.
func (n *agentNode) endTask(x *executorNode, state mesos.TaskState, reason mesos.TaskStatus_Reason, why string) {
	if x.final {
		return
	}
	x.final, x.task.ended, x.task.reported = true, true, state
	n.world.checks.taskEnded(x.task.id, state)
	n.addStatus(x.task.id, state, reason, why)
}

// killByExecutor passes a kill on to the executor of a task. A task that was not sent to its executor ends at once.
func (n *agentNode) killByExecutor(x *executorNode, policy *mesos.KillPolicy) {
	switch {
	case x.gone || x.final:
	case !x.launched:
		n.endTask(x, mesos.TASK_KILLED, mesos.REASON_TASK_KILLED_DURING_LAUNCH, "killed before it was sent to its executor")
		x.end(mesos.REASON_EXECUTOR_TERMINATED, "the executor has no task")
	case x.stream != nil:
		n.toExecutor(x, executormsg.Event{Type: executormsg.Event_KILL, Kill: &executormsg.Event_Kill{TaskID: x.info.TaskID, KillPolicy: policy}})
	}
}

// executorReregistration is how long an agent that has started again waits for its executors before it registers.
const executorReregistration = 10 * time.Second

// recoverExecutors waits for the executors after a restart, ends those that do not come back, and then registers.
func (n *agentNode) recoverExecutors() {
	for _, id := range slices.Sorted(maps.Keys(n.executors)) {
		if x := n.executors[id]; x.gone {
			n.removeExecutor(x, mesos.REASON_EXECUTOR_TERMINATED, "the executor ended while the agent was down")
		}
	}
	n.world.after(executorReregistration, "agent recovered", func() {
		if n.down {
			return
		}
		for _, id := range slices.Sorted(maps.Keys(n.executors)) {
			if x := n.executors[id]; x.stream == nil && !x.gone {
				n.world.note("executor does not register", id, "", 0)
				x.end(mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT, "the executor did not register again")
			}
		}
		n.connect()
	})
}

// anyExecutor returns one of the running executors, or nil.
func (w *World) anyExecutor() *executorNode {
	var running []*executorNode
	for _, n := range w.agents {
		for _, id := range slices.Sorted(maps.Keys(n.executors)) {
			if x := n.executors[id]; !x.gone && x.process != nil {
				running = append(running, x)
			}
		}
	}
	if len(running) == 0 {
		return nil
	}
	return running[w.random.IntN(len(running))]
}

// cutFromAgent cuts the connection between an executor and its agent for a time.
func (x *executorNode) cutFromAgent(length time.Duration) {
	x.cut.until = max(x.cut.until, x.world.now+length)
	if x.connection != nil {
		x.connection.breakUp()
	}
}

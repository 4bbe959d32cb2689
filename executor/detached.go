package executor

import (
	"errors"
	"syscall"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/executor/calls"

	"mesos-gpu/executor/task"
)

// DetachedExecutor has the decisions of Run without its goroutines: its caller has the clock, the connection to the agent
// and the task's process. A simulation uses it. Its methods must not be called concurrently.
type DetachedExecutor struct {
	cfg          ExecutorConfig
	state        *taskState
	reconnection reconnection
	// subscription has the updates that the current SUBSCRIBE carried. subscribed is whether the agent has accepted it.
	subscription []executor.Call_Update
	subscribed   bool
}

// DetachedEffects contains the side effects of a DetachedExecutor as functions, none of which may call its methods.
type DetachedEffects struct {
	// Now is the clock. NewUUID returns the UUID of a status update. Random returns a random duration from 0 to below its
	// argument.
	Now     func() time.Time
	NewUUID func() []byte
	Random  func(below time.Duration) time.Duration
	// StartTask starts the task's process; TaskStarted gets the result. CancelStart ends a start in progress.
	StartTask   func(t task.TaskSpec)
	CancelStart func()
	// Signal sends a signal to the task's process. EndTask ends it by force if it still runs.
	Signal  func(sig syscall.Signal)
	EndTask func()
}

// NewDetached returns an executor that has not subscribed yet. Of cfg it uses the ids, the timeouts and the log.
func NewDetached(cfg ExecutorConfig, effects DetachedEffects) *DetachedExecutor {
	cfg.setDefaults()
	d := &DetachedExecutor{cfg: cfg}
	d.state = newTaskState(&d.cfg, detachedEffects{effects})
	d.reconnection = cfg.newReconnection(effects.Random)
	d.reconnection.lost = effects.Now()
	return d
}

// Subscribe returns the call that opens a subscription.
func (d *DetachedExecutor) Subscribe() *executor.Call {
	tasks, updates := d.state.outbox.unacknowledged()
	d.subscription = updates
	return calls.Subscribe(tasks, updates)
}

// HandleEvent handles an event of the current subscription.
func (d *DetachedExecutor) HandleEvent(ev executor.Event) {
	if ev.GetType() == executor.Event_SUBSCRIBED {
		d.subscribed = true
		d.state.outbox.markConnected(d.subscription)
	}
	d.state.handleEvent(ev)
}

// HandleDisconnect handles the end of a subscription, or an attempt that failed. It returns the pause before the next
// attempt, and 0 if the agent is lost: no attempt follows.
func (d *DetachedExecutor) HandleDisconnect() (pause time.Duration) {
	d.state.outbox.markDisconnected()
	pause, _ = d.reconnection.nextPause(d.state.effects.now(), d.subscribed)
	d.subscribed = false
	if pause <= 0 {
		d.state.handleAgentLoss(errors.New("the agent is gone"))
	}
	return pause
}

// NextUpdate returns the next status update to send, or nil.
func (d *DetachedExecutor) NextUpdate() *executor.Call {
	if status, ok := d.state.outbox.firstUnsent(); ok {
		return calls.Update(status)
	}
	return nil
}

// FinishUpdate takes the agent's answer to an update. It returns the pause before the next update is sent.
func (d *DetachedExecutor) FinishUpdate(call *executor.Call, err error) (pause time.Duration) {
	if err != nil {
		return resendInterval
	}
	d.state.outbox.markSent(call.Update.Status.UUID)
	return 0
}

// TaskStarted takes the result of StartTask.
func (d *DetachedExecutor) TaskStarted(r task.RunningTask, err error) {
	d.state.handleProgress(taskProgress{running: r, err: err})
}

// TaskEnded takes the exit status of the task's process.
func (d *DetachedExecutor) TaskEnded(exit task.ExitStatus) {
	d.state.handleProgress(taskProgress{ended: true, exit: exit})
}

// NextDeadline returns when HandleDeadlines has something to do; zero for never.
func (d *DetachedExecutor) NextDeadline() time.Time { return d.state.nextDeadline() }

// HandleDeadlines does what is due.
func (d *DetachedExecutor) HandleDeadlines() { d.state.handleDeadlines() }

// IsDone reports whether the executor's process ends.
func (d *DetachedExecutor) IsDone() bool { return d.state.done }

// detachedEffects adapts DetachedEffects. There are no watchers, warnings, secrets and devices.
type detachedEffects struct{ DetachedEffects }

func (e detachedEffects) now() time.Time { return e.Now() }

func (e detachedEffects) newUUID() []byte { return e.NewUUID() }

func (e detachedEffects) prepareTask(t *task.TaskSpec) error {
	t.Minors = []int{} // confined
	return nil
}

func (e detachedEffects) startTask(t task.TaskSpec) { e.StartTask(t) }

func (e detachedEffects) cancelStart() { e.CancelStart() }

func (e detachedEffects) startWatchers(task.RunningTask) {}

func (e detachedEffects) warnTask(task.RunningTask, *task.TaskSpec, time.Time) {}

func (e detachedEffects) signalTask(_ task.RunningTask, sig syscall.Signal) { e.Signal(sig) }

func (e detachedEffects) endTask() { e.EndTask() }

package executor

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
)

// taskLoop is the life of one task. The goroutine of serveEvents owns all
// fields. The task's goroutine reports to it through progress, all others
// through actions.
type taskLoop struct {
	cfg    ExecutorConfig
	log    logrus.FieldLogger
	outbox *statusOutbox

	// From SUBSCRIBED:
	container         mesos.ContainerID
	executorResources []mesos.Resource // the executor's own
	reportsKilling    bool             // the framework has the capability TASK_KILLING_STATE

	// phase only advances: idle, launching, running, ended. A task that fails to
	// launch skips running.
	phase taskPhase
	// info is the task of LAUNCH, and task what the runtime gets of it.
	info mesos.TaskInfo
	task task.TaskSpec
	// running is set when the task runs.
	running task.RunningTask
	// kill is set when the first kill starts and never reset. A later kill may
	// shorten its deadline.
	kill *pendingKill
	// cancelLaunch ends a launch in progress; forceEnd ends the task by force
	// and everything that watches it.
	cancelLaunch, forceEnd context.CancelFunc
	// progress has the reports of the task's goroutine.
	progress chan taskProgress
	// messages are the runtime's messages while the task starts or runs.
	messages chan string
	// startWatchers starts the checks and reports for the running task.
	startWatchers func(task.RunningTask)
	// actions are functions that goroutines pass to the goroutine of
	// serveEvents.
	actions chan func()
	// goroutines are those of the task and of its watchers. Run waits for them.
	goroutines sync.WaitGroup

	// healthByCheck has the last result of each health check, nil before the
	// first.
	healthByCheck []*bool
	// healthy is the combined result as last reported; nil before the first.
	healthy *bool
	// lastCheck is the last result of the task's check.
	lastCheck *mesos.CheckStatusInfo
	// unhealthy and diskViolation are the reasons of a kill by a health check
	// or by the disk limit; empty without one.
	unhealthy, diskViolation string
	// completionTimer fires at the max_completion_time, which sets overdue and
	// starts a kill. It is nil without that limit.
	completionTimer <-chan time.Time
	overdue         bool
	// usage is the report of what the devices do.
	usage usageReport
	// faults are the failed devices of the task. A device that recovers is
	// removed.
	faults deviceFaults

	// finalUUID is the UUID of the terminal status; nil before it is sent. Its
	// acknowledgement ends the loop.
	finalUUID []byte
	// endTimer bounds the wait for that acknowledgement and, after SHUTDOWN,
	// everything that is left to do.
	endTimer *time.Timer
	// shutdown is set by SHUTDOWN and by the loss of the agent.
	shutdown bool
	// agentLost is why the agent will not come back; nil while it may.
	agentLost error
	// done ends the loop.
	done bool
}

type taskPhase int

const (
	phaseIdle taskPhase = iota
	phaseLaunching
	phaseRunning
	phaseEnded
)

// taskProgress is a report of the task's goroutine: first running or err,
// then, after running, ended.
type taskProgress struct {
	running task.RunningTask
	ended   bool
	exit    task.ExitStatus
	err     error
	warning string // with running: a warning for the task's user
}

func newTaskLoop(cfg ExecutorConfig) *taskLoop {
	// The timer starts with its first Reset.
	wait := time.NewTimer(time.Hour)
	wait.Stop()
	return &taskLoop{
		cfg: cfg, log: cfg.Log, outbox: newStatusOutbox(), endTimer: wait,
		container: mesos.ContainerID{Value: cfg.ContainerID},
		progress:  make(chan taskProgress, 2),
		messages:  make(chan string, 8),
		actions:   make(chan func()),
	}
}

// serveEvents handles events until the executor has nothing left to do.
func (l *taskLoop) serveEvents(ctx context.Context, events <-chan executor.Event, gone <-chan error) error {
	defer l.waitForGoroutines()
	stop := ctx.Done()
	for !l.done {
		select {
		case ev := <-events:
			l.handleEvent(ctx, ev)
		case err := <-gone:
			l.handleAgentLoss(err)
		case p := <-l.progress:
			l.handleProgress(p)
		case message := <-l.messages:
			l.reportMessage(message)
		case f := <-l.actions:
			f()
		case <-l.completionTimer:
			l.endOverdueTask()
		case <-l.kill.deadlineReached():
			l.continueKill()
		case <-l.endTimer.C:
			l.log.Warn("stopped waiting: time is up")
			l.done = true
		case <-stop:
			stop = nil
			l.beginShutdown("executor received a stop signal")
		}
	}
	return l.agentLost
}

// postAction runs f in the goroutine of serveEvents, unless ctx ends first.
func (l *taskLoop) postAction(ctx context.Context, f func()) {
	select {
	case l.actions <- f:
	case <-ctx.Done():
	}
}

// waitForGoroutines ends the task by force if it still runs, and waits for all
// goroutines.
func (l *taskLoop) waitForGoroutines() {
	if l.forceEnd != nil {
		l.forceEnd()
	}
	l.goroutines.Wait()
	l.endTimer.Stop()
}

// handleEvent handles one event. It ignores an event without the field that
// its type requires.
func (l *taskLoop) handleEvent(ctx context.Context, ev executor.Event) {
	switch t := ev.GetType(); {
	case t == executor.Event_SUBSCRIBED && ev.Subscribed != nil:
		l.handleSubscribed(ev.Subscribed)
	case t == executor.Event_LAUNCH && ev.Launch != nil:
		l.launchTask(ctx, ev.Launch.Task)
	case t == executor.Event_LAUNCH_GROUP && ev.LaunchGroup != nil:
		l.handleLaunchGroup(ctx, ev.LaunchGroup.TaskGroup.Tasks)
	case t == executor.Event_KILL && ev.Kill != nil:
		l.killTask(ev.Kill.TaskID, ev.Kill.KillPolicy)
	case t == executor.Event_ACKNOWLEDGED && ev.Acknowledged != nil:
		l.handleAcknowledged(ev.Acknowledged)
	case t == executor.Event_SHUTDOWN:
		l.beginShutdown("agent sent SHUTDOWN")
	case t == executor.Event_ERROR:
		l.log.WithField("message", ev.Error.GetMessage()).Error("agent reports an error")
	}
}

func (l *taskLoop) handleSubscribed(s *executor.Event_Subscribed) {
	if s.ContainerID != nil {
		l.container = *s.ContainerID
	}
	l.executorResources = s.ExecutorInfo.Resources
	for _, c := range s.FrameworkInfo.Capabilities {
		if c.Type == mesos.FrameworkInfo_Capability_TASK_KILLING_STATE {
			l.reportsKilling = true
		}
	}
	l.log.WithFields(logrus.Fields{"agent": s.AgentInfo.Hostname, "container": l.container.Value}).Info("subscribed")
}

func (l *taskLoop) handleAcknowledged(a *executor.Event_Acknowledged) {
	l.outbox.acknowledge(a.TaskID, a.UUID)
	if l.finalUUID != nil && bytes.Equal(a.UUID, l.finalUUID) {
		l.done = true
	}
}

// handleLaunchGroup accepts a group of one task. The tasks of a larger group
// would share this executor's GPUs, and nothing would say which task owns
// which.
func (l *taskLoop) handleLaunchGroup(ctx context.Context, tasks []mesos.TaskInfo) {
	if len(tasks) == 1 {
		l.launchTask(ctx, tasks[0])
		return
	}
	for _, t := range tasks {
		uuid := l.rejectTask(t, fmt.Errorf("task group has %d tasks, this executor takes 1: launch one task a group", len(tasks)))
		if l.phase == phaseIdle {
			l.finalUUID = uuid
		}
	}
	if l.phase == phaseIdle {
		l.phase = phaseEnded
		l.endTimer.Reset(l.cfg.AckTimeout)
	}
}

func (l *taskLoop) launchTask(ctx context.Context, info mesos.TaskInfo) {
	if l.phase != phaseIdle {
		l.rejectTask(info, fmt.Errorf("executor %s already has task %s: give each task an executor of its own", l.cfg.ExecutorID, l.info.TaskID.Value))
		return
	}
	l.phase, l.info = phaseLaunching, info
	if info.Check != nil {
		l.lastCheck = emptyCheckStatus(mesos.HealthCheck_Type(info.Check.Type))
	}
	l.outbox.addTask(info)
	runtime, err := l.prepareTask(info)
	if err != nil {
		l.finishTask(failureStatus(err, false))
		return
	}
	l.sendUpdate(statusContent{state: mesos.TASK_STARTING})
	taskCtx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	startCtx, stopStart := context.WithCancel(taskCtx)
	l.forceEnd, l.cancelLaunch = giveUp, stopStart
	t := l.task
	t.OnMessage = l.queueMessage
	l.goroutines.Go(func() { l.executeTask(startCtx, taskCtx, runtime, t) })
	if d := info.MaxCompletionTime; d != nil {
		l.completionTimer = time.After(time.Duration(d.Nanoseconds))
	}
	l.watchDevices(taskCtx)
	l.startWatchers = func(r task.RunningTask) {
		l.startHealthChecks(taskCtx, r)
		l.startCheck(taskCtx, r)
		l.enforceDiskLimit(taskCtx, r)
		l.reportUsage(taskCtx)
	}
}

// prepareTask sets l.task and returns the runtime for it.
func (l *taskLoop) prepareTask(info mesos.TaskInfo) (task.Runtime, error) {
	t, err := parseTask(info)
	if err != nil {
		return nil, err
	}
	if t.Env, t.SecretMounts, err = resolveSecrets(t, l.cfg.SecretsDir); err != nil {
		return nil, err
	}
	reach, err := l.findGrantedGPUs(t)
	if err != nil {
		return nil, err
	}
	t.Minors, t.Caps = reach.Minors, reach.Caps
	t.Framework, t.Container = l.cfg.FrameworkID, l.container
	l.task = t
	l.log.WithFields(logrus.Fields{"task": t.ID, "gpus": t.GPUs, "minors": t.Minors, "containerizer": t.Containerizer}).Info("launching")
	return l.cfg.Runtimes[t.Containerizer], nil
}

// executeTask runs the task. The buffer of progress has room for all of its
// reports.
func (l *taskLoop) executeTask(startCtx, taskCtx context.Context, runtime task.Runtime, t task.TaskSpec) {
	var r task.RunningTask
	warning, err := l.cfg.applyShareLimit(startCtx, &t)
	if err == nil {
		r, err = runtime.Start(startCtx, t)
	}
	l.progress <- taskProgress{running: r, err: err, warning: warning}
	if err != nil {
		return
	}
	exit, err := r.Wait(taskCtx)
	l.reportLastUsage(taskCtx, &t)
	l.progress <- taskProgress{ended: true, exit: exit, err: err}
}

// queueMessage stores a message of the runtime. It drops the message if too
// many are waiting.
func (l *taskLoop) queueMessage(message string) {
	select {
	case l.messages <- message:
	default:
	}
}

// reportMessage sends a status update with a message in the task's current
// state. During a kill it sends nothing.
func (l *taskLoop) reportMessage(message string) {
	switch {
	case l.kill != nil:
	case l.phase == phaseLaunching:
		l.sendUpdate(statusContent{state: mesos.TASK_STARTING, message: message})
	case l.phase == phaseRunning:
		l.sendUpdate(statusContent{state: mesos.TASK_RUNNING, message: message})
	}
}

func (l *taskLoop) handleProgress(p taskProgress) {
	switch {
	case p.ended:
		l.logTaskError(p.err)
		l.finishTask(endStatus(p.exit, p.err, l.kill != nil && !l.kill.isDone(&p.exit)))
	case p.err != nil:
		l.logTaskError(p.err)
		o := startFailureStatus(&l.task, p.err, l.kill != nil)
		if l.kill == nil {
			o.reason = mesos.REASON_CONTAINER_LAUNCH_FAILED.Enum()
			o.unfit = image.MismatchCauseOf(p.err)
		}
		l.finishTask(o)
	default:
		l.phase, l.running = phaseRunning, p.running
		if l.kill != nil {
			l.terminateTask()
			return
		}
		o := statusContent{state: mesos.TASK_RUNNING, message: p.warning}
		if l.task.GPUs > 0 && l.task.Minors == nil {
			o.message = "no devices cgroup confines this task: it can open every GPU of its agent"
		}
		if d, ok := p.running.(task.ContainerDescriber); ok {
			o.data, o.addresses = d.DescribeContainer()
		}
		l.sendUpdate(o)
		l.startWatchers(p.running)
	}
}

func (l *taskLoop) logTaskError(err error) {
	if err != nil {
		l.log.WithError(err).WithField("task", l.task.ID).Error("task ended with an error")
	}
}

// finishTask sends the terminal status. After that the executor waits only for
// the acknowledgement.
func (l *taskLoop) finishTask(o statusContent) {
	l.phase = phaseEnded
	l.kill.stopTimer()
	if l.forceEnd != nil {
		l.forceEnd() // the task has ended: this ends its watchers
	}
	l.finalUUID = l.sendUpdate(l.faults.explainEnd(l.explainForcedEnd(o)))
	if l.agentLost != nil {
		l.done = true
		return
	}
	if !l.shutdown {
		l.endTimer.Reset(l.cfg.AckTimeout)
	}
}

func (l *taskLoop) sendUpdate(o statusContent) (uuid []byte) {
	s := newStatus(l.info.TaskID, l.cfg.ExecutorID, o, time.Now())
	s.Healthy, s.CheckStatus = l.currentHealth(), l.lastCheck
	l.outbox.addStatus(s)
	l.log.WithFields(logrus.Fields{"task": l.info.TaskID.Value, "state": o.state.String(), "message": o.message}).Info("task changed state")
	return s.UUID
}

// rejectTask fails a task that this executor does not run.
func (l *taskLoop) rejectTask(info mesos.TaskInfo, err error) (uuid []byte) {
	l.outbox.addTask(info)
	s := newStatus(info.TaskID, l.cfg.ExecutorID, failureStatus(err, false), time.Now())
	l.outbox.addStatus(s)
	l.log.WithError(err).WithField("task", info.TaskID.Value).Warn("rejected a task")
	return s.UUID
}

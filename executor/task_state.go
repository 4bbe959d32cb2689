package executor

import (
	"bytes"
	"fmt"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
)

// taskState is the state of one task, and decides what happens with it: its methods handle what the agent sends, what the
// task does and that time passes. It has no goroutine, no clock and no connection. One goroutine uses it.
type taskState struct {
	cfg    *ExecutorConfig
	log    logrus.FieldLogger
	outbox *statusOutbox
	// effects carries the decisions out.
	effects taskEffects

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
	// completeBy is the max_completion_time, zero without that limit. At that
	// time overdue is set and a kill starts.
	completeBy time.Time
	overdue    bool
	// faults are the failed devices of the task. A device that recovers is
	// removed.
	faults deviceFaults

	// finalUUID is the UUID of the terminal status; nil before it is sent. Its
	// acknowledgement ends the executor.
	finalUUID []byte
	// endBy bounds the wait for that acknowledgement while the executor is
	// subscribed and, after SHUTDOWN, everything that is left to do. Otherwise
	// it is zero.
	endBy time.Time
	// shutdown is set by SHUTDOWN and by the loss of the agent.
	shutdown bool
	// agentLost is why the agent will not come back; nil while it may.
	agentLost error
	// done ends the executor.
	done bool
}

// taskEffects are the effects of a taskState's decisions. None of them blocks.
type taskEffects interface {
	// now returns the time.
	now() time.Time
	// newUUID returns the UUID of a new status update.
	newUUID() []byte
	// prepareTask adds what only the agent's machine has: values of secrets, and
	// the GPUs that the executor was granted.
	prepareTask(t *task.TaskSpec) error
	// startTask starts the task. handleProgress receives its reports.
	startTask(t task.TaskSpec)
	// cancelStart ends a start in progress.
	cancelStart()
	// startWatchers starts the checks and reports for the running task.
	startWatchers(r task.RunningTask)
	// warnTask sends the warning of a task that is ended at the given time.
	warnTask(r task.RunningTask, t *task.TaskSpec, sigterm time.Time)
	signalTask(r task.RunningTask, sig syscall.Signal)
	// endTask ends the task by force, if it still runs, and everything that
	// watches it.
	endTask()
}

type taskPhase int

const (
	phaseIdle taskPhase = iota
	phaseLaunching
	phaseRunning
	phaseEnded
)

// taskProgress is a report of the task: first running or err, then, after
// running, ended.
type taskProgress struct {
	running task.RunningTask
	ended   bool
	exit    task.ExitStatus
	err     error
	warning string // with running: a warning for the task's user
}

func newTaskState(cfg *ExecutorConfig, effects taskEffects) *taskState {
	return &taskState{cfg: cfg, log: cfg.Log, outbox: newStatusOutbox(), effects: effects, container: mesos.ContainerID{Value: cfg.ContainerID}}
}

// nextDeadline returns when handleDeadlines has something to do; zero for never.
func (s *taskState) nextDeadline() time.Time {
	next := s.endBy
	for _, at := range []time.Time{s.completeBy, s.kill.nextStep()} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// handleDeadlines does what is due.
func (s *taskState) handleDeadlines() {
	now := s.effects.now()
	isDue := func(at time.Time) bool { return !at.IsZero() && !at.After(now) }
	if isDue(s.completeBy) {
		s.completeBy = time.Time{}
		s.endOverdueTask()
	}
	if isDue(s.kill.nextStep()) {
		s.continueKill()
	}
	switch {
	case !isDue(s.endBy):
	case !s.shutdown && !s.outbox.isSubscribed():
		// The agent restarts: it gets the terminal status when it is back, or is lost after the recovery timeout.
		s.endBy = time.Time{}
	default:
		s.log.Warn("stopped waiting: time is up")
		s.done = true
	}
}

// handleEvent handles one event. It ignores an event without the field that
// its type requires.
func (s *taskState) handleEvent(ev executor.Event) {
	switch t := ev.GetType(); {
	case t == executor.Event_SUBSCRIBED && ev.Subscribed != nil:
		s.handleSubscribed(ev.Subscribed)
	case t == executor.Event_LAUNCH && ev.Launch != nil:
		s.launchTask(ev.Launch.Task)
	case t == executor.Event_LAUNCH_GROUP && ev.LaunchGroup != nil:
		s.handleLaunchGroup(ev.LaunchGroup.TaskGroup.Tasks)
	case t == executor.Event_KILL && ev.Kill != nil:
		s.killTask(ev.Kill.TaskID, ev.Kill.KillPolicy)
	case t == executor.Event_ACKNOWLEDGED && ev.Acknowledged != nil:
		s.handleAcknowledged(ev.Acknowledged)
	case t == executor.Event_SHUTDOWN:
		s.beginShutdown("agent sent SHUTDOWN")
	case t == executor.Event_ERROR:
		s.log.WithField("message", ev.Error.GetMessage()).Error("agent reports an error")
	}
}

func (s *taskState) handleSubscribed(e *executor.Event_Subscribed) {
	if e.ContainerID != nil {
		s.container = *e.ContainerID
	}
	s.executorResources = e.ExecutorInfo.Resources
	if s.phase == phaseEnded && !s.shutdown {
		s.endBy = s.effects.now().Add(s.cfg.ackTimeout)
	}
	for _, c := range e.FrameworkInfo.Capabilities {
		if c.Type == mesos.FrameworkInfo_Capability_TASK_KILLING_STATE {
			s.reportsKilling = true
		}
	}
	s.log.WithFields(logrus.Fields{"agent": e.AgentInfo.Hostname, "container": s.container.Value}).Info("subscribed")
}

func (s *taskState) handleAcknowledged(a *executor.Event_Acknowledged) {
	s.outbox.acknowledge(a.TaskID, a.UUID)
	if s.finalUUID != nil && bytes.Equal(a.UUID, s.finalUUID) {
		s.done = true
	}
}

// handleLaunchGroup accepts a group of one task. The tasks of a larger group
// would share this executor's GPUs, and nothing would say which task owns
// which.
func (s *taskState) handleLaunchGroup(tasks []mesos.TaskInfo) {
	if len(tasks) == 1 {
		s.launchTask(tasks[0])
		return
	}
	for _, t := range tasks {
		uuid := s.rejectTask(t, fmt.Errorf("task group has %d tasks, this executor takes 1: launch one task a group", len(tasks)))
		if s.phase == phaseIdle {
			s.finalUUID = uuid
		}
	}
	if s.phase == phaseIdle {
		s.phase = phaseEnded
		s.endBy = s.effects.now().Add(s.cfg.ackTimeout)
	}
}

func (s *taskState) launchTask(info mesos.TaskInfo) {
	if s.phase != phaseIdle {
		s.rejectTask(info, fmt.Errorf("executor %s already has task %s: give each task an executor of its own", s.cfg.ExecutorID, s.info.TaskID.Value))
		return
	}
	s.phase, s.info = phaseLaunching, info
	if info.Check != nil {
		s.lastCheck = emptyCheckStatus(mesos.HealthCheck_Type(info.Check.Type))
	}
	s.outbox.addTask(info)
	if err := s.prepareTask(); err != nil {
		s.finishTask(failureStatus(err, false))
		return
	}
	s.sendUpdate(statusContent{state: mesos.TASK_STARTING})
	s.effects.startTask(s.task)
	if d := info.MaxCompletionTime; d != nil {
		s.completeBy = s.effects.now().Add(time.Duration(d.Nanoseconds))
	}
}

// prepareTask sets s.task.
func (s *taskState) prepareTask() error {
	t, err := parseTask(s.info)
	if err != nil {
		return err
	}
	t.Framework, t.Container = s.cfg.FrameworkID, s.container
	if err := s.effects.prepareTask(&t); err != nil {
		return err
	}
	s.task = t
	s.log.WithFields(logrus.Fields{"task": t.ID, "gpus": t.GPUs, "minors": t.Minors, "containerizer": t.Containerizer}).Info("launching")
	return nil
}

// reportMessage sends a status update with a message in the task's current
// state. During a kill it sends nothing.
func (s *taskState) reportMessage(message string) {
	switch {
	case s.kill != nil:
	case s.phase == phaseLaunching:
		s.sendUpdate(statusContent{state: mesos.TASK_STARTING, message: message})
	case s.phase == phaseRunning:
		s.sendUpdate(statusContent{state: mesos.TASK_RUNNING, message: message})
	}
}

func (s *taskState) handleProgress(p taskProgress) {
	switch {
	case p.ended:
		s.logTaskError(p.err)
		s.finishTask(endStatus(p.exit, p.err, s.kill != nil && !s.kill.isDone(&p.exit)))
	case p.err != nil:
		s.logTaskError(p.err)
		o := startFailureStatus(&s.task, p.err, s.kill != nil)
		if s.kill == nil {
			o.reason = mesos.REASON_CONTAINER_LAUNCH_FAILED.Enum()
			o.unfit = image.MismatchCauseOf(p.err)
		}
		s.finishTask(o)
	default:
		s.phase, s.running = phaseRunning, p.running
		if s.kill != nil {
			s.terminateTask()
			return
		}
		o := statusContent{state: mesos.TASK_RUNNING, message: p.warning}
		if s.task.GPUs > 0 && s.task.Minors == nil {
			o.message = "no devices cgroup confines this task: it can open every GPU of its agent"
		}
		if d, ok := p.running.(task.ContainerDescriber); ok {
			o.data, o.addresses = d.DescribeContainer()
		}
		s.sendUpdate(o)
		s.healthByCheck = make([]*bool, len(s.task.HealthChecks))
		s.effects.startWatchers(p.running)
	}
}

func (s *taskState) logTaskError(err error) {
	if err != nil {
		s.log.WithError(err).WithField("task", s.task.ID).Error("task ended with an error")
	}
}

// finishTask sends the terminal status. After that the executor waits only for
// the acknowledgement.
func (s *taskState) finishTask(o statusContent) {
	s.phase = phaseEnded
	s.kill.stopTimer()
	s.effects.endTask() // the task has ended: this ends its watchers
	s.finalUUID = s.sendUpdate(s.faults.explainEnd(s.explainForcedEnd(o)))
	if s.agentLost != nil {
		s.done = true
		return
	}
	if !s.shutdown {
		s.endBy = s.effects.now().Add(s.cfg.ackTimeout)
	}
}

func (s *taskState) sendUpdate(o statusContent) (uuid []byte) {
	status := newStatus(s.info.TaskID, s.cfg.ExecutorID, o, s.effects.newUUID(), s.effects.now())
	status.Healthy, status.CheckStatus = s.currentHealth(), s.lastCheck
	s.outbox.addStatus(status)
	s.log.WithFields(logrus.Fields{"task": s.info.TaskID.Value, "state": o.state.String(), "message": o.message}).Info("task changed state")
	return status.UUID
}

// rejectTask fails a task that this executor does not run.
func (s *taskState) rejectTask(info mesos.TaskInfo, err error) (uuid []byte) {
	s.outbox.addTask(info)
	status := newStatus(info.TaskID, s.cfg.ExecutorID, failureStatus(err, false), s.effects.newUUID(), s.effects.now())
	s.outbox.addStatus(status)
	s.log.WithError(err).WithField("task", info.TaskID.Value).Warn("rejected a task")
	return status.UUID
}

package executor

import (
	"context"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

const (
	// killRetryInterval is the pause between two SIGKILLs. A restart of the
	// engine or agent may lose the first one.
	killRetryInterval = 5 * time.Second
	// signalTimeout bounds one attempt to send a signal.
	signalTimeout = 10 * time.Second
)

// pendingKill is a kill in progress: SIGTERM was sent, SIGKILL follows at the
// deadline.
type pendingKill struct {
	deadline time.Time
	timer    *time.Timer
}

// deadlineReached returns a channel that fires at the deadline; nil if no kill
// is in progress.
func (k *pendingKill) deadlineReached() <-chan time.Time {
	if k == nil {
		return nil
	}
	return k.timer.C
}

func (k *pendingKill) stopTimer() {
	if k != nil {
		k.timer.Stop()
	}
}

// shortenDeadline brings the deadline forward. It never postpones it.
func (k *pendingKill) shortenDeadline(grace time.Duration) {
	if d := time.Now().Add(grace); d.Before(k.deadline) {
		k.deadline = d
		k.timer.Reset(grace)
	}
}

// killTask handles the event KILL.
func (l *taskLoop) killTask(id mesos.TaskID, policy *mesos.KillPolicy) {
	if l.phase == phaseIdle || l.info.TaskID != id {
		l.log.WithField("task", id.Value).Warn("ignored a KILL of an unknown task")
		return
	}
	if l.phase == phaseEnded {
		return
	}
	l.startKill(l.killGrace(policy))
}

// killGrace returns the grace period of a KILL, or of the task if the KILL has
// none.
func (l *taskLoop) killGrace(policy *mesos.KillPolicy) time.Duration {
	return parseGracePeriod(policy, l.task.KillGrace)
}

// startKill starts to kill the task. If a kill is in progress, it only
// shortens the deadline.
func (l *taskLoop) startKill(grace time.Duration) {
	if l.kill != nil {
		l.kill.shortenDeadline(grace)
		return
	}
	l.kill = &pendingKill{deadline: time.Now().Add(grace), timer: time.NewTimer(grace)}
	if l.reportsKilling {
		l.sendUpdate(statusContent{state: mesos.TASK_KILLING})
	}
	if l.phase == phaseLaunching {
		l.cancelLaunch()
		return
	}
	l.terminateTask()
}

// endOverdueTask kills a task that exceeded its max_completion_time, without a
// grace period.
func (l *taskLoop) endOverdueTask() {
	if l.phase == phaseEnded || l.kill != nil {
		return
	}
	l.overdue = true
	l.startKill(0)
}

// explainForcedEnd sets state, reason and message of a task that was killed
// because of one of its own limits: time, disk, or health check.
func (l *taskLoop) explainForcedEnd(o statusContent) statusContent {
	switch {
	case l.overdue:
		o.state, o.reason = mesos.TASK_FAILED, mesos.REASON_MAX_COMPLETION_TIME_REACHED.Enum()
		o.message = "ended after its max_completion_time of " + time.Duration(l.info.MaxCompletionTime.Nanoseconds).String()
	case l.diskViolation != "":
		o.state, o.reason, o.message = mesos.TASK_FAILED, mesos.REASON_CONTAINER_LIMITATION_DISK.Enum(), l.diskViolation
		o.limitation = &mesos.TaskResourceLimitation{Resources: plainDiskResources(l.info.Resources)}
	case l.unhealthy != "":
		o.message = l.unhealthy
	}
	return o
}

// terminateTask sends SIGTERM, unless the deadline has passed.
func (l *taskLoop) terminateTask() {
	if time.Until(l.kill.deadline) > 0 {
		l.signalTask(syscall.SIGTERM)
	}
}

// forceKill sends SIGKILL at the deadline, and again until the task has ended.
func (l *taskLoop) forceKill() {
	if l.phase == phaseRunning {
		l.signalTask(syscall.SIGKILL)
	}
	l.kill.timer.Reset(killRetryInterval)
}

func (l *taskLoop) signalTask(sig syscall.Signal) {
	r, log := l.running, l.log.WithField("signal", sig.String())
	log.Info("signalling the task")
	l.goroutines.Go(func() {
		if err := sendSignal(r, sig); err != nil {
			log.WithError(err).Warn("cannot send signal")
		}
	})
}

func sendSignal(r task.RunningTask, sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	return r.Signal(ctx, sig)
}

// beginShutdown kills the task and then ends the executor, before the agent
// destroys the container.
func (l *taskLoop) beginShutdown(why string) {
	if l.shutdown {
		return
	}
	l.shutdown = true
	l.log.WithField("reason", why).Info("shutting down")
	switch l.phase {
	case phaseIdle:
		l.done = true
		return
	case phaseLaunching, phaseRunning:
		l.startKill(min(l.killGrace(nil), l.cfg.ShutdownGrace-statusMargin(l.cfg.ShutdownGrace)))
	}
	l.endTimer.Reset(l.cfg.ShutdownGrace)
}

// statusMargin returns the part of a shutdown's grace period that is reserved
// for sending the terminal status.
func statusMargin(grace time.Duration) time.Duration { return min(time.Second, grace/4) }

// handleAgentLoss kills the task: without an agent that manages it, it would
// hold GPUs that the agent may offer again.
func (l *taskLoop) handleAgentLoss(err error) {
	if err == nil {
		return
	}
	l.agentLost = err
	l.log.WithError(err).Error("agent is lost")
	l.beginShutdown("agent is lost")
	if l.phase == phaseIdle || l.phase == phaseEnded {
		l.done = true
	}
}

package executor

import (
	"context"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

const (
	// killRetryInterval is the pause between two SIGKILLs: the first may be lost with
	// an engine or agent that restarts.
	killRetryInterval = 5 * time.Second
	// signalTimeout bounds one attempt to send a signal.
	signalTimeout = 10 * time.Second
)

// pendingKill is a task's end as asked for: SIGTERM, and at the deadline SIGKILL.
type pendingKill struct {
	deadline time.Time
	timer    *time.Timer
}

// deadlineReached fires at the deadline; never, where nobody asked for an end.
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

// shortenDeadline brings the deadline forward; it never puts it off.
func (k *pendingKill) shortenDeadline(grace time.Duration) {
	if d := time.Now().Add(grace); d.Before(k.deadline) {
		k.deadline = d
		k.timer.Reset(grace)
	}
}

// killTask serves KILL.
func (l *taskLoop) killTask(id mesos.TaskID, policy *mesos.KillPolicy) {
	if l.phase == phaseIdle || l.info.TaskID != id {
		l.log.WithField("task", id.Value).Warn("asked to kill a task that is not here")
		return
	}
	if l.phase == phaseEnded {
		return
	}
	l.startKill(l.killGrace(policy))
}

// killGrace is the KILL's own, or the one the task was launched with.
func (l *taskLoop) killGrace(policy *mesos.KillPolicy) time.Duration {
	return parseGracePeriod(policy, l.task.KillGrace)
}

// startKill begins the task's end, or hastens it.
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

// endOverdueTask ends a task that took longer than its max_completion_time, at once.
func (l *taskLoop) endOverdueTask() {
	if l.phase == phaseEnded || l.kill != nil {
		return
	}
	l.overdue = true
	l.startKill(0)
}

// explainForcedEnd gives the reason of an end that nobody asked for but the task's own
// limits: its time, its disk, or its health check.
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

// terminateTask sends SIGTERM, unless there is no time left for it.
func (l *taskLoop) terminateTask() {
	if time.Until(l.kill.deadline) > 0 {
		l.signalTask(syscall.SIGTERM)
	}
}

// forceKill comes at the deadline, and again until the task has ended.
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
			log.WithError(err).Warn("signal did not arrive")
		}
	})
}

func sendSignal(r task.RunningTask, sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	return r.Signal(ctx, sig)
}

// beginShutdown ends the task and then the executor, all within the time after
// which the agent destroys the container.
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

// statusMargin is kept of a shutdown's grace for the terminal status.
func statusMargin(grace time.Duration) time.Duration { return min(time.Second, grace/4) }

// handleAgentLoss ends the task without anybody to tell: a task that nobody manages
// must not hold GPUs that its agent may hand out again.
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

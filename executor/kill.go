package executor

import (
	"context"
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

const (
	// killAgain is the pause between two SIGKILLs: the first may be lost with
	// an engine or agent that restarts.
	killAgain = 5 * time.Second
	// signalTimeout bounds one attempt to send a signal.
	signalTimeout = 10 * time.Second
)

// kill is a task's end as asked for: SIGTERM, and at the deadline SIGKILL.
type kill struct {
	deadline time.Time
	timer    *time.Timer
}

// due fires at the deadline; never, where nobody asked for an end.
func (k *kill) due() <-chan time.Time {
	if k == nil {
		return nil
	}
	return k.timer.C
}

func (k *kill) stop() {
	if k != nil {
		k.timer.Stop()
	}
}

// shorten brings the deadline forward; it never puts it off.
func (k *kill) shorten(grace time.Duration) {
	if d := time.Now().Add(grace); d.Before(k.deadline) {
		k.deadline = d
		k.timer.Reset(grace)
	}
}

// killTask serves KILL.
func (l *loop) killTask(id mesos.TaskID, policy *mesos.KillPolicy) {
	if l.phase == idle || l.info.TaskID != id {
		l.log.WithField("task", id.Value).Warn("asked to kill a task that is not here")
		return
	}
	if l.phase == over {
		return
	}
	l.startKill(l.grace(policy))
}

// grace is the KILL's own, or the one the task was launched with.
func (l *loop) grace(policy *mesos.KillPolicy) time.Duration {
	return graceOf(policy, l.task.KillGrace)
}

// startKill begins the task's end, or hastens it.
func (l *loop) startKill(grace time.Duration) {
	if l.kill != nil {
		l.kill.shorten(grace)
		return
	}
	l.kill = &kill{deadline: time.Now().Add(grace), timer: time.NewTimer(grace)}
	if l.tellKilling {
		l.update(outcome{state: mesos.TASK_KILLING})
	}
	if l.phase == launching {
		l.stopStart()
		return
	}
	l.endRunning()
}

// expire ends a task that took longer than its max_completion_time, at once.
func (l *loop) expire() {
	if l.phase == over || l.kill != nil {
		return
	}
	l.overdue = true
	l.startKill(0)
}

// forced gives the reason of an end that nobody asked for but the task's own
// limits: its time, its disk, or its health check.
func (l *loop) forced(o outcome) outcome {
	switch {
	case l.overdue:
		o.state, o.reason = mesos.TASK_FAILED, mesos.REASON_MAX_COMPLETION_TIME_REACHED.Enum()
		o.message = "ended after its max_completion_time of " + time.Duration(l.info.MaxCompletionTime.Nanoseconds).String()
	case l.disk != "":
		o.state, o.reason, o.message = mesos.TASK_FAILED, mesos.REASON_CONTAINER_LIMITATION_DISK.Enum(), l.disk
		o.limitation = &mesos.TaskResourceLimitation{Resources: diskOf(l.info.Resources)}
	case l.unhealthy != "":
		o.message = l.unhealthy
	}
	return o
}

// endRunning sends SIGTERM, unless there is no time left for it.
func (l *loop) endRunning() {
	if time.Until(l.kill.deadline) > 0 {
		l.signal(syscall.SIGTERM)
	}
}

// escalate comes at the deadline, and again until the task has ended.
func (l *loop) escalate() {
	if l.phase == running {
		l.signal(syscall.SIGKILL)
	}
	l.kill.timer.Reset(killAgain)
}

func (l *loop) signal(sig syscall.Signal) {
	r, log := l.running, l.log.WithField("signal", sig.String())
	log.Info("signalling the task")
	l.work.Go(func() {
		if err := send(r, sig); err != nil {
			log.WithError(err).Warn("signal did not arrive")
		}
	})
}

func send(r task.Running, sig syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	return r.Signal(ctx, sig)
}

// shutDown ends the task and then the executor, all within the time after
// which the agent destroys the container.
func (l *loop) shutDown(why string) {
	if l.shutdown {
		return
	}
	l.shutdown = true
	l.log.WithField("reason", why).Info("shutting down")
	switch l.phase {
	case idle:
		l.done = true
		return
	case launching, running:
		l.startKill(min(l.grace(nil), l.cfg.ShutdownGrace-margin(l.cfg.ShutdownGrace)))
	}
	l.wait.Reset(l.cfg.ShutdownGrace)
}

// margin is kept of a shutdown's grace for the terminal status.
func margin(grace time.Duration) time.Duration { return min(time.Second, grace/4) }

// agentLost ends the task without anybody to tell: a task that nobody manages
// must not hold GPUs that its agent may hand out again.
func (l *loop) agentLost(err error) {
	if err == nil {
		return
	}
	l.lost = err
	l.log.WithError(err).Error("agent is lost")
	l.shutDown("agent is lost")
	if l.phase == idle || l.phase == over {
		l.done = true
	}
}

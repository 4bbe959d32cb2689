package executor

import (
	"syscall"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// killRetryInterval is the pause between two SIGKILLs. A restart of the
// engine or agent may lose the first one.
const killRetryInterval = 5 * time.Second

// pendingKill is a kill in progress: after a warning or a delay, which most tasks do not
// have, SIGTERM is sent, and SIGKILL follows at the deadline.
type pendingKill struct {
	deadline time.Time
	// delayed is true until SIGTERM is sent. warned is set if the task got a warning.
	delayed, warned bool
	// next is when the kill continues: at the end of the delay, then at the
	// deadline, and later for each other SIGKILL. It is zero once the task has
	// ended.
	next time.Time
}

// nextStep returns when the kill continues; zero if no kill is in progress.
func (k *pendingKill) nextStep() time.Time {
	if k == nil {
		return time.Time{}
	}
	return k.next
}

// isDone reports whether a task that was warned has ended its work before SIGTERM: it
// has exited with 0. With any other code it requests to be started again.
func (k *pendingKill) isDone(exit *task.ExitStatus) bool {
	return k.warned && k.delayed && exit.Succeeded()
}

func (k *pendingKill) stopTimer() {
	if k != nil {
		k.next = time.Time{}
	}
}

// shortenDeadline brings the deadline and, if necessary, SIGTERM forward. It postpones
// neither. killGrace is the time between SIGTERM and SIGKILL that the task is to have.
func (k *pendingKill) shortenDeadline(now time.Time, grace, killGrace time.Duration) {
	d := now.Add(grace)
	if !d.Before(k.deadline) {
		return
	}
	k.deadline = d
	if !k.delayed {
		k.next = d
	} else if sigterm := now.Add(max(0, grace-killGrace)); sigterm.Before(k.next) {
		k.next = sigterm
	}
}

// killTask handles the event KILL.
func (s *taskState) killTask(id mesos.TaskID, policy *mesos.KillPolicy) {
	if s.phase == phaseIdle || s.info.TaskID != id {
		s.log.WithField("task", id.Value).Warn("ignored a KILL of an unknown task")
		return
	}
	if s.phase == phaseEnded {
		return
	}
	grace := parseGracePeriod(policy, s.task.KillGrace+s.task.ShutdownDelay)
	if w := s.task.Warn; w != nil { // a drain by Mesos may allow more
		grace = min(grace, w.Before+s.task.ShutdownDelay+s.task.KillGrace)
	}
	s.startKill(grace)
}

// startKill starts to kill the task, which is to end within grace. A grace beyond the
// task's KillGrace delays SIGTERM: by the task's ShutdownDelay at most, or further if the
// task is to be warned. If a kill is in progress, it only shortens the deadline.
func (s *taskState) startKill(grace time.Duration) {
	if s.kill != nil {
		s.kill.shortenDeadline(s.effects.now(), grace, s.task.KillGrace)
		return
	}
	delay := max(0, grace-s.task.KillGrace)
	warns := s.task.Warn != nil && delay > s.task.ShutdownDelay && s.phase == phaseRunning
	if !warns {
		delay = min(delay, s.task.ShutdownDelay)
	}
	if s.phase != phaseRunning {
		delay = 0
	}
	now := s.effects.now()
	s.kill = &pendingKill{deadline: now.Add(grace), delayed: delay > 0, warned: warns, next: now.Add(grace)}
	if s.kill.delayed {
		s.kill.next = now.Add(delay)
	}
	if s.reportsKilling {
		s.sendUpdate(statusContent{state: mesos.TASK_KILLING})
	}
	if s.phase == phaseLaunching {
		s.effects.cancelStart()
		return
	}
	if warns {
		s.effects.warnTask(s.running, &s.task, s.kill.next)
	}
	if s.kill.delayed {
		return
	}
	s.terminateTask()
}

// continueKill sends SIGTERM at the end of the delay, and SIGKILL at the deadline.
func (s *taskState) continueKill() {
	if !s.kill.delayed {
		s.forceKill()
		return
	}
	s.kill.delayed = false
	s.kill.next = s.kill.deadline
	s.terminateTask()
}

// endOverdueTask kills a task that exceeded its max_completion_time, without a
// grace period.
func (s *taskState) endOverdueTask() {
	if s.phase == phaseEnded || s.kill != nil {
		return
	}
	s.overdue = true
	s.startKill(0)
}

// explainForcedEnd sets state, reason and message of a task that was killed
// because of one of its own limits: time, disk, or health check.
func (s *taskState) explainForcedEnd(o statusContent) statusContent {
	switch {
	case s.overdue:
		o.state, o.reason = mesos.TASK_FAILED, mesos.REASON_MAX_COMPLETION_TIME_REACHED.Enum()
		o.message = "ended after its max_completion_time of " + time.Duration(s.info.MaxCompletionTime.Nanoseconds).String()
	case s.diskViolation != "":
		o.state, o.reason, o.message = mesos.TASK_FAILED, mesos.REASON_CONTAINER_LIMITATION_DISK.Enum(), s.diskViolation
		o.limitation = &mesos.TaskResourceLimitation{Resources: plainDiskResources(s.info.Resources)}
	case s.unhealthy != "":
		o.message = s.unhealthy
	}
	return o
}

// terminateTask sends SIGTERM, unless the deadline has passed.
func (s *taskState) terminateTask() {
	if s.kill.deadline.After(s.effects.now()) {
		s.effects.signalTask(s.running, syscall.SIGTERM)
	}
}

// forceKill sends SIGKILL at the deadline, and again until the task has ended.
func (s *taskState) forceKill() {
	if s.phase == phaseRunning {
		s.effects.signalTask(s.running, syscall.SIGKILL)
	}
	s.kill.next = s.effects.now().Add(killRetryInterval)
}

// beginShutdown kills the task and then ends the executor, before the agent
// destroys the container.
func (s *taskState) beginShutdown(why string) {
	if s.shutdown {
		return
	}
	s.shutdown = true
	s.log.WithField("reason", why).Info("shutting down")
	switch s.phase {
	case phaseIdle:
		s.done = true
		return
	case phaseLaunching, phaseRunning:
		s.startKill(min(s.task.KillGrace, s.cfg.ShutdownGrace-statusMargin(s.cfg.ShutdownGrace)))
	}
	s.endBy = s.effects.now().Add(s.cfg.ShutdownGrace)
}

// statusMargin returns the part of a shutdown's grace period that is reserved
// for sending the terminal status.
func statusMargin(grace time.Duration) time.Duration { return min(time.Second, grace/4) }

// handleAgentLoss kills the task: without an agent that manages it, it would
// hold GPUs that the agent may offer again.
func (s *taskState) handleAgentLoss(err error) {
	if err == nil {
		return
	}
	s.agentLost = err
	s.log.WithError(err).Error("agent is lost")
	s.beginShutdown("agent is lost")
	if s.phase == phaseIdle || s.phase == phaseEnded {
		s.done = true
	}
}

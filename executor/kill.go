package executor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
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

// pendingKill is a kill in progress: after a warning, which most tasks do not have,
// SIGTERM is sent, and SIGKILL follows at the deadline.
type pendingKill struct {
	deadline time.Time
	// warning is true until SIGTERM is sent. The timer fires then, and afterwards at the
	// deadline.
	warning bool
	timer   *time.Timer
}

// deadlineReached returns a channel that fires at the deadline; nil if no kill
// is in progress.
func (k *pendingKill) deadlineReached() <-chan time.Time {
	if k == nil {
		return nil
	}
	return k.timer.C
}

// isDone reports whether a task that was warned has ended its work before SIGTERM: it
// has exited with 0. With any other code it requests to be started again.
func (k *pendingKill) isDone(exit *task.ExitStatus) bool {
	return k.warning && exit.Succeeded()
}

func (k *pendingKill) stopTimer() {
	if k != nil {
		k.timer.Stop()
	}
}

// shortenDeadline brings the deadline forward. It never postpones it. killGrace is the
// time between SIGTERM and SIGKILL at most.
func (k *pendingKill) shortenDeadline(grace, killGrace time.Duration) {
	if d := time.Now().Add(grace); d.Before(k.deadline) {
		k.deadline = d
		if k.warning {
			grace = max(0, grace-killGrace)
		}
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
		l.kill.shortenDeadline(grace, l.task.KillGrace)
		return
	}
	warning := grace - l.task.KillGrace
	if l.task.Warn == nil || l.phase != phaseRunning {
		warning = 0
	}
	l.kill = &pendingKill{deadline: time.Now().Add(grace), warning: warning > 0, timer: time.NewTimer(grace)}
	if l.kill.warning {
		l.kill.timer.Reset(warning)
	}
	if l.reportsKilling {
		l.sendUpdate(statusContent{state: mesos.TASK_KILLING})
	}
	if l.phase == phaseLaunching {
		l.cancelLaunch()
		return
	}
	if l.kill.warning {
		l.warnTask()
		return
	}
	l.terminateTask()
}

// warnTask sends the signal and creates the file of the task's warning.
func (l *taskLoop) warnTask() {
	w := l.task.Warn
	if sig, ok := warningSignals[w.Signal]; ok {
		l.signalTask(sig)
	}
	if target, ok := l.running.(task.ProbeTarget); ok && w.HTTP != "" && target.ProbeAddress() != "" {
		url := "http://" + net.JoinHostPort(target.ProbeAddress(), strconv.Itoa(l.task.WarnPort)) + w.HTTP
		log := l.log
		l.goroutines.Go(func() {
			if err := postWarning(url); err != nil {
				log.WithError(err).Warn("cannot post the warning")
			}
		})
	}
	if w.File == "" {
		return
	}
	if err := writeWarningFile(l.cfg.Sandbox, w.File, l.kill.deadline.Add(-l.task.KillGrace)); err != nil {
		l.log.WithError(err).Warn("cannot write the warning")
	}
}

// warningSignals are the signals of job.WarningSignals.
var warningSignals = map[string]syscall.Signal{
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "WINCH": syscall.SIGWINCH,
}

// postWarning sends a POST without a body. It follows no redirect.
func postWarning(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answered %s", url, res.Status)
	}
	return nil
}

// writeWarningFile writes the time of SIGTERM to a file in the sandbox. It follows no
// link out of the sandbox.
func writeWarningFile(sandbox, name string, at time.Time) error {
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return err
	}
	defer root.Close()
	return root.WriteFile(name, []byte(at.UTC().Format(time.RFC3339)+"\n"), 0o644)
}

// continueKill sends SIGTERM at the end of the warning, and SIGKILL at the deadline.
func (l *taskLoop) continueKill() {
	if !l.kill.warning {
		l.forceKill()
		return
	}
	l.kill.warning = false
	l.kill.timer.Reset(max(0, time.Until(l.kill.deadline)))
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

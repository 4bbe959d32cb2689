package agent

import (
	"context"
	"fmt"
	"slices"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/minimesos/updates"
)

// executorStarted continues after the launch of an executor's container has
// succeeded or failed.
func (a *EmbeddedAgent) executorStarted(e *executorState, box *container.RunningContainer, g pendingGrant, err error) {
	if err != nil {
		a.cfg.Log.WithFields(e.logFields()).WithError(err).Warn("executor did not start")
		if isDiskFull(err) {
			a.dropTasks(e, err)
		}
		if e.why == (termination{}) {
			e.why = termination{reason: mesos.REASON_CONTAINER_LAUNCH_FAILED.Enum(), message: "Container launch failed: " + err.Error()}
		}
		a.executorTerminated(e, -1)
		return
	}
	e.box, e.grant, e.granted = box, g.grant, g.key
	if e.phase >= ending {
		box.Kill()
	}
	a.runInBackground(func(context.Context) func() {
		<-box.Exited()
		return func() { a.executorExited(e) }
	})
	if e.phase == running && !e.grantMatches() {
		a.updateGrant(e, func() {}) // its first task ended during the launch
	}
	a.deliverTasks(e) // it may have subscribed during the launch
}

// dropTasks reports that the tasks of an executor did not start because the disk is full. It
// is no failure of the tasks: their job tries again without counting an attempt.
func (a *EmbeddedAgent) dropTasks(e *executorState, err error) {
	message := fmt.Sprintf("the disk of the agent's work directory %s is full: %v", a.cfg.WorkDir, err)
	a.cfg.Log.WithFields(e.logFields()).Error(message)
	for _, t := range e.tasks {
		if t.isLive() {
			a.agentStatus(e, t, e.framework.missingTaskState(), mesos.REASON_CONTAINER_LAUNCH_FAILED, message)
		}
	}
}

// executorExited ends the nested containers of a container whose process has
// exited.
func (a *EmbeddedAgent) executorExited(e *executorState) {
	e.exited = true
	if e.phase < ending {
		e.phase = ending
	}
	if u := e.box.MemoryUsage(); u.OOMKills > 0 && e.why.reason == nil {
		e.why = termination{reason: mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum(), message: fmt.Sprintf("out of memory: %s, with the executor", u)}
	}
	for _, n := range e.nested {
		n.killContainer()
	}
	a.removeContainer(e)
}

// removeContainer removes the container's cgroup once it has no nested
// container and no client writes to it.
func (a *EmbeddedAgent) removeContainer(e *executorState) {
	if !e.exited || e.countNested() > 0 || e.resizing || len(e.later) > 0 || e.phase == ended {
		return
	}
	e.phase = ended
	box := e.box
	a.runInBackground(func(context.Context) func() {
		err := box.RemoveCgroup()
		return func() {
			if err != nil {
				a.cfg.Log.WithFields(e.logFields()).WithError(err).Error("cannot remove a container's cgroup")
			}
			a.executorTerminated(e, int32(box.WaitStatus()))
		}
	})
}

// executorTerminated reports terminal statuses for the executor's remaining
// tasks and then its exit. The wait status is -1 if it never ran.
func (a *EmbeddedAgent) executorTerminated(e *executorState, ws int32) {
	e.phase = ended
	if e.stream != nil {
		e.stream.Close()
	}
	reason, message := mesos.REASON_EXECUTOR_TERMINATED, "Executor terminated"
	if e.why.reason != nil {
		reason = *e.why.reason
	}
	switch {
	case e.why.message != "":
		message = e.why.message
	case e.exited:
		message = "Executor terminated: " + describeStatus(ws)
	}
	x := &pendingExit{framework: *e.framework.info.ID, executor: e.info.ExecutorID, status: ws, waits: map[updates.TaskKey]bool{}}
	for _, t := range e.tasks {
		if t.isLive() {
			a.agentStatus(e, t, mesos.TASK_FAILED, reason, message)
		}
		if key := (updates.TaskKey{Framework: e.framework.id(), Task: t.info.TaskID.Value}); !t.acked && a.streams.IsBehind(key) {
			x.waits[key] = true
		}
	}
	a.cfg.Log.WithFields(e.logFields()).WithField("status", describeStatus(ws)).Info("executor ended")
	a.touchSandbox(e)
	delete(e.framework.executors, e.id())
	a.completed = append(a.completed, e)
	if n := slices.IndexFunc(a.completed, a.isOver); len(a.completed) > maxCompleted && n >= 0 {
		a.completed = slices.Delete(a.completed, n, n+1)
	}
	a.saveExecutor(e)
	if e.box != nil {
		e.box.Forget()
	}
	for _, n := range e.nested {
		n.forget()
	}
	a.exits = append(a.exits, x)
	a.reportExits()
	a.forgetFramework(e.framework)
}

// forgetFramework deletes a framework without executors.
func (a *EmbeddedAgent) forgetFramework(f *frameworkState) {
	if len(f.executors) == 0 {
		delete(a.frameworks, f.id())
	}
}

// describeStatus describes a wait status in words. -1 means that the process
// never started.
func describeStatus(status int32) string {
	ws := syscall.WaitStatus(status)
	switch {
	case status == -1:
		return "did not start"
	case ws.Signaled():
		return fmt.Sprintf("killed by signal %d (%v)", int(ws.Signal()), ws.Signal())
	case ws.Exited():
		return fmt.Sprintf("exited with status %d", ws.ExitStatus())
	}
	return "ended for an unknown reason"
}

// shutdownExecutor requests an executor's shutdown and kills it after the grace
// period. An executor that has not subscribed is killed immediately.
func (a *EmbeddedAgent) shutdownExecutor(e *executorState, why termination) {
	switch e.phase {
	case starting:
		a.destroyContainer(e, why)
	case running:
		e.phase, e.why = ending, why
		e.sendEvent(&executor.Event{Type: executor.Event_SHUTDOWN})
		a.postAfter(e.killGrace(a.cfg.shutdownGrace), func() { a.destroyContainer(e, why) })
	}
}

// destroyContainer kills an executor's container or aborts its launch.
func (a *EmbeddedAgent) destroyContainer(e *executorState, why termination) {
	if e.phase == ended || e.exited {
		return
	}
	if e.phase < ending || e.why == (termination{}) {
		e.why = why
	}
	e.phase = ending
	if e.box == nil {
		e.abort()
		return
	}
	e.box.Kill()
}

func (a *EmbeddedAgent) registrationTimeout(e *executorState) {
	if e.phase != starting {
		return
	}
	a.destroyContainer(e, termination{
		reason:  mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT.Enum(),
		message: "Executor did not register within " + formatDuration(a.cfg.registrationTimeout),
	})
}

// sendEvent queues an event for a subscribed executor. Without a subscription
// the event is dropped.
func (e *executorState) sendEvent(event *executor.Event) {
	if e.stream != nil {
		e.stream.Send(event)
	}
}

// sendTasks sends LAUNCH events for ready tasks.
func (a *EmbeddedAgent) sendTasks(e *executorState, batch []*taskState) {
	for _, t := range batch {
		t.sent = true
	}
	a.saveExecutor(e)
	for _, t := range batch {
		e.sendEvent(&executor.Event{Type: executor.Event_LAUNCH, Launch: &executor.Event_Launch{Task: t.info}})
	}
}

func (e *executorState) logFields() logrus.Fields {
	return logrus.Fields{"framework": e.framework.id(), "executor": e.id(), "container": e.container}
}

package agent

import (
	"context"
	"fmt"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/status"
)

// started goes on once an executor's container runs, or could not.
func (a *Agent) started(e *executorRun, box *container.Container, g granting, err error) {
	if err != nil {
		a.cfg.Log.WithFields(e.fields()).WithError(err).Warn("executor did not start")
		if e.why == (termination{}) {
			reason := mesos.REASON_CONTAINER_LAUNCH_FAILED
			e.why = termination{reason: &reason, message: "Container launch failed: " + err.Error()}
		}
		a.terminated(e, -1)
		return
	}
	e.box, e.grant, e.granted = box, g.grant, g.key
	if e.phase >= ending {
		box.Kill()
	}
	a.work(func(context.Context) func() {
		<-box.Exited()
		return func() { a.executorExited(e) }
	})
	if e.phase == running && !e.fits() {
		a.resize(e, func() {}) // its first task has ended meanwhile
	}
	a.deliver(e) // it may have subscribed before
}

// executorExited ends what is nested in a container whose process has ended.
func (a *Agent) executorExited(e *executorRun) {
	e.exited = true
	if e.phase < ending {
		e.phase = ending
	}
	if e.box.OutOfMemory() && e.why.reason == nil {
		reason := mesos.REASON_CONTAINER_LIMITATION_MEMORY
		e.why = termination{reason: &reason, message: fmt.Sprintf("Memory limit exceeded: the container may use %.0f MiB", scalar(e.resources(), "mem"))}
	}
	for _, n := range e.nested {
		n.kill()
	}
	a.finish(e)
}

// finish removes the container's cgroup once nothing is nested in it and
// nobody writes to it.
func (a *Agent) finish(e *executorRun) {
	if !e.exited || e.alive() > 0 || e.resizing || len(e.later) > 0 || e.phase == ended {
		return
	}
	e.phase = ended
	box := e.box
	a.work(func(context.Context) func() {
		err := box.Remove()
		return func() {
			if err != nil {
				a.cfg.Log.WithFields(e.fields()).WithError(err).Error("cannot remove a container's cgroup")
			}
			a.terminated(e, int32(box.Status()))
		}
	})
}

// terminated answers for the tasks that an executor left, and for itself. Its
// wait status is -1 where it never ran.
func (a *Agent) terminated(e *executorRun, ws int32) {
	e.phase = ended
	if e.stream != nil {
		e.stream.Close()
	}
	state, reason, message := mesos.TASK_FAILED, mesos.REASON_EXECUTOR_TERMINATED, "Executor terminated"
	if e.why.reason != nil {
		reason = *e.why.reason
	}
	switch {
	case e.why.message != "":
		message = e.why.message
	case e.exited:
		message = "Executor terminated: " + describeStatus(ws)
	}
	x := &exit{framework: *e.framework.info.ID, executor: e.info.ExecutorID, status: ws, waits: map[status.Key]bool{}}
	for _, t := range e.tasks {
		if t.live() {
			a.agentStatus(e, t, state, reason, message)
		}
		if key := (status.Key{Framework: e.framework.id(), Task: t.info.TaskID.Value}); !t.acked && a.streams.Behind(key) {
			x.waits[key] = true
		}
	}
	a.cfg.Log.WithFields(e.fields()).WithField("status", describeStatus(ws)).Info("executor ended")
	delete(e.framework.executors, e.id())
	a.completed.add(e)
	a.exits = append(a.exits, x)
	a.reportExits()
	a.tidy(e.framework)
}

// tidy forgets a framework that has no executor left.
func (a *Agent) tidy(f *framework) {
	if len(f.executors) == 0 {
		delete(a.frameworks, f.id())
		a.completed.addFramework(f)
	}
}

// describeStatus says how a process ended; -1 stands for one that never began.
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

// shutdown asks an executor to end, and sees to it that it does. One that has
// not subscribed yet cannot be asked.
func (a *Agent) shutdown(e *executorRun, why termination) {
	switch e.phase {
	case starting:
		a.destroy(e, why)
	case running:
		e.phase, e.why = ending, why
		e.send(&executor.Event{Type: executor.Event_SHUTDOWN})
		a.after(e.grace(a.cfg.ShutdownGrace), func() { a.destroy(e, why) })
	}
}

// destroy kills an executor's container, or ends its launch.
func (a *Agent) destroy(e *executorRun, why termination) {
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

func (a *Agent) registrationTimeout(e *executorRun) {
	if e.phase != starting {
		return
	}
	reason := mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT
	a.destroy(e, termination{reason: &reason, message: "Executor did not register within " + duration(a.cfg.RegistrationTimeout)})
}

// send queues an event for a subscribed executor; others get none.
func (e *executorRun) send(event *executor.Event) {
	if e.stream != nil {
		e.stream.Send(event)
	}
}

// sendTasks launches tasks that are ready.
func (e *executorRun) sendTasks(batch []*task) {
	for i := 0; i < len(batch); i++ {
		t := batch[i]
		t.sent = true
		if !t.group.together {
			e.send(&executor.Event{Type: executor.Event_LAUNCH, Launch: &executor.Event_Launch{Task: t.info}})
			continue
		}
		infos := []mesos.TaskInfo{t.info}
		for ; i+1 < len(batch) && batch[i+1].group == t.group; i++ {
			batch[i+1].sent = true
			infos = append(infos, batch[i+1].info)
		}
		e.send(&executor.Event{Type: executor.Event_LAUNCH_GROUP, LaunchGroup: &executor.Event_LaunchGroup{
			TaskGroup: mesos.TaskGroupInfo{Tasks: infos},
		}})
	}
}

func (e *executorRun) fields() logrus.Fields {
	return logrus.Fields{"framework": e.framework.id(), "executor": e.id(), "container": e.container}
}

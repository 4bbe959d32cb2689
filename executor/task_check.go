package executor

import (
	"context"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// startCheck has the running task's check made until ctx ends. It never ends the
// task.
func (l *taskLoop) startCheck(ctx context.Context, r task.RunningTask) {
	if l.info.Check == nil {
		return
	}
	h := checkAsHealthCheck(l.info.Check)
	tell := func(found *mesos.CheckStatusInfo, message string) {
		l.postAction(ctx, func() { l.recordCheck(found, message) })
	}
	l.goroutines.Go(func() {
		try, err := newProbe(h, l.task.Containerizer, r)
		if err != nil {
			tell(emptyCheckStatus(h.Type), err.Error())
			return
		}
		watchCheck(ctx, h, try, tell)
	})
}

// watchCheck probes until ctx ends, and tells what changed. An answer that
// did not come, in time or at all, is an empty one.
func watchCheck(ctx context.Context, h *mesos.HealthCheck, try probeFunc, tell func(found *mesos.CheckStatusInfo, message string)) {
	last := emptyCheckStatus(h.Type)
	repeatProbe(ctx, h, try, func(found *mesos.CheckStatusInfo, problem error) {
		message := ""
		if found == nil {
			found = emptyCheckStatus(h.Type)
			message = "check without an answer: " + problem.Error()
		}
		if !found.Equal(last) {
			last = found
			tell(found, message)
		}
	})
}

// emptyCheckStatus is what every status of a task with a check carries until the
// first answer.
func emptyCheckStatus(kind mesos.HealthCheck_Type) *mesos.CheckStatusInfo {
	s := &mesos.CheckStatusInfo{Type: mesos.CheckInfo_Type(kind).Enum()}
	switch kind {
	case mesos.HealthCheck_COMMAND:
		s.Command = &mesos.CheckStatusInfo_Command{}
	case mesos.HealthCheck_HTTP:
		s.HTTP = &mesos.CheckStatusInfo_Http{}
	case mesos.HealthCheck_TCP:
		s.TCP = &mesos.CheckStatusInfo_Tcp{}
	}
	return s
}

// recordCheck passes on an answer of the task.
func (l *taskLoop) recordCheck(recordCheck *mesos.CheckStatusInfo, message string) {
	if l.phase != phaseRunning || l.kill != nil {
		return
	}
	l.lastCheck = recordCheck
	l.sendUpdate(statusContent{state: mesos.TASK_RUNNING, message: message, reason: mesos.REASON_TASK_CHECK_STATUS_UPDATED.Enum()})
}

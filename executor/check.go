package executor

import (
	"context"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// check has the running task's check made until ctx ends. It never ends the
// task.
func (l *loop) check(ctx context.Context, r task.Running) {
	if l.info.Check == nil {
		return
	}
	h := asProbe(l.info.Check)
	tell := func(found *mesos.CheckStatusInfo, message string) {
		l.post(ctx, func() { l.found(found, message) })
	}
	l.work.Go(func() {
		try, err := probeOf(h, l.task.Containerizer, r)
		if err != nil {
			tell(unanswered(h.Type), err.Error())
			return
		}
		watchCheck(ctx, h, try, tell)
	})
}

// watchCheck probes until ctx ends, and tells what changed. An answer that
// did not come, in time or at all, is an empty one.
func watchCheck(ctx context.Context, h *mesos.HealthCheck, try probe, tell func(found *mesos.CheckStatusInfo, message string)) {
	last := unanswered(h.Type)
	repeat(ctx, h, try, func(found *mesos.CheckStatusInfo, problem error) {
		message := ""
		if found == nil {
			found = unanswered(h.Type)
			message = "check without an answer: " + problem.Error()
		}
		if !found.Equal(last) {
			last = found
			tell(found, message)
		}
	})
}

// unanswered is what every status of a task with a check carries until the
// first answer.
func unanswered(kind mesos.HealthCheck_Type) *mesos.CheckStatusInfo {
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

// found passes on an answer of the task.
func (l *loop) found(found *mesos.CheckStatusInfo, message string) {
	if l.phase != running || l.kill != nil {
		return
	}
	l.checked = found
	l.update(outcome{state: mesos.TASK_RUNNING, message: message, reason: mesos.REASON_TASK_CHECK_STATUS_UPDATED.Enum()})
}

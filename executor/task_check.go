package executor

import (
	"context"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// startCheck probes the running task by its check until ctx ends. A check
// never ends the task.
func (l *taskLoop) startCheck(ctx context.Context, r task.RunningTask) {
	if l.state.info.Check == nil {
		return
	}
	h := checkAsHealthCheck(l.state.info.Check)
	report := func(found *mesos.CheckStatusInfo, message string) {
		l.postAction(ctx, func() { l.state.recordCheck(found, message) })
	}
	l.goroutines.Go(func() {
		try, err := newProbe(h, l.state.task.Containerizer, r)
		if err != nil {
			report(emptyCheckStatus(h.Type), err.Error())
			return
		}
		watchCheck(ctx, h, try, report)
	})
}

// watchCheck probes until ctx ends and reports each change of the result. A
// probe without a result counts as an empty result.
func watchCheck(ctx context.Context, h *mesos.HealthCheck, try probeFunc, report func(found *mesos.CheckStatusInfo, message string)) {
	last := emptyCheckStatus(h.Type)
	repeatProbe(ctx, h, try, func(found *mesos.CheckStatusInfo, problem error) {
		message := ""
		if found == nil {
			found = emptyCheckStatus(h.Type)
			message = "check without an answer: " + problem.Error()
		}
		if !found.Equal(last) {
			last = found
			report(found, message)
		}
	})
}

// emptyCheckStatus returns the check status before the first result.
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

// recordCheck stores a result of the check and sends a status update.
func (s *taskState) recordCheck(found *mesos.CheckStatusInfo, message string) {
	if s.phase != phaseRunning || s.kill != nil {
		return
	}
	s.lastCheck = found
	s.sendUpdate(statusContent{state: mesos.TASK_RUNNING, message: message, reason: mesos.REASON_TASK_CHECK_STATUS_UPDATED.Enum()})
}

package executor

import (
	"context"
	"maps"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
)

// deviceFaults has the failed devices of the task with the reason of each.
type deviceFaults map[string]string

// watchDevices follows the condition of a task's devices until ctx ends.
func (l *taskLoop) watchDevices(ctx context.Context, t *task.TaskSpec) {
	if l.cfg.WatchConditions == nil || len(t.DeviceIDs) == 0 {
		return
	}
	devices := t.DeviceIDs
	l.goroutines.Go(func() {
		l.cfg.WatchConditions(ctx, devices, func(device string, c gpu.DeviceCondition) {
			l.postAction(ctx, func() { l.state.recordCondition(device, c) })
		})
	})
}

// recordCondition sends a status update when the set of failed devices
// changes, and when all devices work again. It does not end the task: only the
// task can find out whether it can continue.
func (s *taskState) recordCondition(device string, c gpu.DeviceCondition) {
	before := s.faults.String()
	if c.Health == gpu.Failed {
		if s.faults == nil {
			s.faults = deviceFaults{}
		}
		s.faults[device] = c.Reason
	} else {
		delete(s.faults, device)
	}
	now := s.faults.String()
	if s.phase != phaseRunning || now == before {
		return
	}
	if now == "" {
		now = "its GPUs work again"
	}
	s.sendUpdate(statusContent{state: mesos.TASK_RUNNING, message: now})
}

// currentHealth returns the health for status updates: false while a device
// has failed, else the last result of the health checks. It is nil before any
// result.
func (s *taskState) currentHealth() *bool {
	switch well := len(s.faults) == 0; {
	case !well, s.healthy == nil && s.faults != nil:
		return &well
	}
	return s.healthy
}

// String returns "GPU GPU-5e7f… failed: XID 79 (…); …", or "" without faults.
func (s deviceFaults) String() string {
	var parts []string
	for _, device := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, "GPU "+device+" failed: "+s[device])
	}
	return strings.Join(parts, "; ")
}

// explainEnd adds the device faults to the message of a task that failed.
func (s deviceFaults) explainEnd(o statusContent) statusContent {
	if len(s) > 0 && (o.state == mesos.TASK_FAILED || o.state == mesos.TASK_LOST) {
		o.message = strings.Join([]string{o.message, s.String()}, "; ")
	}
	return o
}

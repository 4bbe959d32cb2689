package executor

import (
	"context"
	"maps"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
)

// deviceFaults has the failed devices of the task with the reason of each.
type deviceFaults map[string]string

// watchDevices follows the condition of the task's devices until ctx ends.
func (l *taskLoop) watchDevices(ctx context.Context) {
	if l.cfg.WatchConditions == nil || len(l.task.DeviceIDs) == 0 {
		return
	}
	devices := l.task.DeviceIDs
	l.goroutines.Go(func() {
		l.cfg.WatchConditions(ctx, devices, func(device string, c gpu.DeviceCondition) {
			l.postAction(ctx, func() { l.recordCondition(device, c) })
		})
	})
}

// recordCondition sends a status update when the set of failed devices
// changes, and when all devices work again. It does not end the task: only the
// task can find out whether it can continue.
func (l *taskLoop) recordCondition(device string, c gpu.DeviceCondition) {
	before := l.faults.String()
	if c.Health == gpu.Failed {
		if l.faults == nil {
			l.faults = deviceFaults{}
		}
		l.faults[device] = c.Reason
	} else {
		delete(l.faults, device)
	}
	now := l.faults.String()
	if l.phase != phaseRunning || now == before {
		return
	}
	if now == "" {
		now = "its GPUs work again"
	}
	l.sendUpdate(statusContent{state: mesos.TASK_RUNNING, message: now})
}

// currentHealth returns the health for status updates: false while a device
// has failed, else the last result of the health checks. It is nil before any
// result.
func (l *taskLoop) currentHealth() *bool {
	switch well := len(l.faults) == 0; {
	case !well, l.healthy == nil && l.faults != nil:
		return &well
	}
	return l.healthy
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

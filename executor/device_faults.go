package executor

import (
	"context"
	"maps"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
)

// deviceFaults are the task's devices that have failed, and why.
type deviceFaults map[string]string

// watchDevices asks how the task's devices are until ctx ends.
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

// recordCondition tells the framework when the first of the task's devices fails, each
// time that changes, and when all work again. Whether the task can go on it
// shows itself.
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

// currentHealth is what statuses say of the task's health: what its check found
// last, unless a device of it has failed. It is nil where neither is known.
func (l *taskLoop) currentHealth() *bool {
	switch well := len(l.faults) == 0; {
	case !well, l.healthy == nil && l.faults != nil:
		return &well
	}
	return l.healthy
}

// String reads "GPU GPU-5e7f… failed: XID 79 (…); …", "" where none has.
func (s deviceFaults) String() string {
	var parts []string
	for _, device := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, "GPU "+device+" failed: "+s[device])
	}
	return strings.Join(parts, "; ")
}

// explainEnd adds to a task's bad end that its devices had failed.
func (s deviceFaults) explainEnd(o statusContent) statusContent {
	if len(s) > 0 && (o.state == mesos.TASK_FAILED || o.state == mesos.TASK_LOST) {
		o.message = strings.Join([]string{o.message, s.String()}, "; ")
	}
	return o
}

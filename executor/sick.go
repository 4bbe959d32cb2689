package executor

import (
	"context"
	"maps"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
)

// change is news of a device.
type change struct {
	device    string
	condition gpu.Condition
}

// sick are the task's devices that have failed, and why.
type sick map[string]string

// observe asks how the task's devices are until ctx ends.
func (l *loop) observe(ctx context.Context) {
	if l.cfg.Conditions == nil || len(l.task.DeviceIDs) == 0 {
		return
	}
	devices := l.task.DeviceIDs
	l.work.Go(func() {
		l.cfg.Conditions(ctx, devices, func(device string, c gpu.Condition) {
			select {
			case l.changes <- change{device, c}:
			case <-ctx.Done():
			}
		})
	})
}

// changed tells the framework when the first of the task's devices fails, each
// time that changes, and when all work again. Whether the task can go on it
// shows itself.
func (l *loop) changed(c change) {
	before := l.sick.String()
	if c.condition.Health == gpu.Failed {
		if l.sick == nil {
			l.sick = sick{}
		}
		l.sick[c.device] = c.condition.Reason
	} else {
		delete(l.sick, c.device)
	}
	now := l.sick.String()
	if l.phase != running || now == before {
		return
	}
	well := now == ""
	if well {
		now = "its GPUs work again"
	}
	l.update(outcome{state: mesos.TASK_RUNNING, message: now, healthy: &well})
}

// String reads "GPU GPU-5e7f… failed: XID 79 (…); …", "" where none has.
func (s sick) String() string {
	var parts []string
	for _, device := range slices.Sorted(maps.Keys(s)) {
		parts = append(parts, "GPU "+device+" failed: "+s[device])
	}
	return strings.Join(parts, "; ")
}

// explain adds to a task's bad end that its devices had failed.
func (s sick) explain(o outcome) outcome {
	if len(s) > 0 && (o.state == mesos.TASK_FAILED || o.state == mesos.TASK_LOST) {
		o.message = strings.Join([]string{o.message, s.String()}, "; ")
	}
	return o
}

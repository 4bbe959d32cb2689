package executor

import (
	"context"
	"maps"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
)

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
			l.post(ctx, func() { l.changed(device, c) })
		})
	})
}

// changed tells the framework when the first of the task's devices fails, each
// time that changes, and when all work again. Whether the task can go on it
// shows itself.
func (l *loop) changed(device string, c gpu.Condition) {
	before := l.sick.String()
	if c.Health == gpu.Failed {
		if l.sick == nil {
			l.sick = sick{}
		}
		l.sick[device] = c.Reason
	} else {
		delete(l.sick, device)
	}
	now := l.sick.String()
	if l.phase != running || now == before {
		return
	}
	if now == "" {
		now = "its GPUs work again"
	}
	l.update(outcome{state: mesos.TASK_RUNNING, message: now})
}

// wellBeing is what statuses say of the task's health: what its check found
// last, unless a device of it has failed. It is nil where neither is known.
func (l *loop) wellBeing() *bool {
	switch well := len(l.sick) == 0; {
	case !well, l.healthy == nil && l.sick != nil:
		return &well
	}
	return l.healthy
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

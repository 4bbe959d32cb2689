package notification

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
)

// IdleGPURule decides when targets are notified that the GPUs of a job are idle.
type IdleGPURule struct {
	// After is how long all GPUs of the job have been idle. Below is the duty, from 0 to 1, below which a GPU is idle.
	After time.Duration
	Below float64
}

// DefaultIdleGPURule returns the rule for operators that configure none.
func DefaultIdleGPURule() IdleGPURule { return IdleGPURule{After: 30 * time.Minute, Below: 0.05} }

// Reason describes the rule's condition, for the notification.
func (r IdleGPURule) Reason() string {
	return fmt.Sprintf("its GPUs had a duty below %g %% for %s", 100*r.Below, r.After)
}

// TaskDuty is the duty of the GPUs of a running task in the last minute.
type TaskDuty struct {
	TaskID string
	Run    job.RunID
	// Busiest is the mean duty of the busiest GPU. It is valid if Known is set: all GPUs of the task were measured.
	Busiest float64
	Known   bool
}

// IdleGPUTracker finds the runs whose GPUs are idle. A new leader has a new one, for which idle time starts again.
type IdleGPUTracker struct {
	// since is when the GPUs of a running task were first found idle, without a measurement since then that was not.
	since map[string]time.Time
}

// Update takes the duties of all running tasks with GPUs. It returns the runs that have idle GPUs by the rule, and those with a
// GPU in use; other runs are in neither list. The GPUs of a run are idle as long as those of each task are. A task whose duty
// is unknown is not idle.
func (t *IdleGPUTracker) Update(rule IdleGPURule, tasks []TaskDuty, now time.Time) (idle, busy []job.RunID) {
	since := make(map[string]time.Time, len(tasks))
	type runState struct{ busy, waits bool }
	runs := map[job.RunID]runState{}
	for i := range tasks {
		task := &tasks[i]
		state := runs[task.Run]
		switch start, isIdle := t.since[task.TaskID]; {
		case task.Known && task.Busiest >= rule.Below:
			state.busy = true
		case !task.Known:
			state.waits = true
		default:
			if !isIdle {
				start = now
			}
			since[task.TaskID] = start
			state.waits = state.waits || now.Sub(start) < rule.After
		}
		runs[task.Run] = state
	}
	t.since = since
	byName := func(a, b job.RunID) int { return strings.Compare(a.String(), b.String()) }
	for _, run := range slices.SortedFunc(maps.Keys(runs), byName) { // so that equal input gives equal events
		switch state := runs[run]; {
		case state.busy:
			busy = append(busy, run)
		case !state.waits:
			idle = append(idle, run)
		}
	}
	return idle, busy
}

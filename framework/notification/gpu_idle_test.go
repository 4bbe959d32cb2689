package notification

import (
	"slices"
	"testing"
	"time"

	"mesos-gpu/job"
)

// TestIdleGPUs: a run is idle if all its tasks have been for the time of the rule, measured from the first idle
// measurement, and busy as soon as one GPU is in use. A task whose duty is unknown starts again.
func TestIdleGPUs(t *testing.T) {
	rule := IdleGPURule{After: 10 * time.Minute, Below: 0.05}
	train := job.RunID{Name: "train", Run: 1}
	const unknown = -1
	for name, c := range map[string]struct {
		// duties are those of two tasks of one run, minute by minute.
		duties [][2]float64
		// idle and busy are the minutes in which the run is reported as such.
		idle, busy []int
	}{
		"idle":                {repeatDuties(13, 0, 0.049), []int{10, 11, 12}, nil},
		"in use":              {repeatDuties(3, 0.05, 0.9), nil, []int{0, 1, 2}},
		"one task in use":     {repeatDuties(12, 0, 0.9), nil, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		"worked at first":     {append(repeatDuties(2, 1, 1), repeatDuties(11, 0, 0)...), []int{12}, []int{0, 1}},
		"worked in between":   {slices.Concat(repeatDuties(11, 0, 0), repeatDuties(1, 0, 1), repeatDuties(11, 0, 0)), []int{10, 22}, []int{11}},
		"one is not measured": {repeatDuties(13, 0, unknown), nil, nil},
		"unknown in between":  {slices.Concat(repeatDuties(5, 0, 0), repeatDuties(1, 0, unknown), repeatDuties(11, 0, 0)), []int{16}, nil},
	} {
		var tracker IdleGPUTracker
		var idle, busy []int
		for minute, pair := range c.duties {
			var tasks []TaskDuty
			for i, duty := range pair {
				tasks = append(tasks, TaskDuty{TaskID: string(rune('a' + i)), Run: train, Busiest: max(duty, 0), Known: duty != unknown})
			}
			i, b := tracker.Update(rule, tasks, time.Unix(int64(60*minute), 0))
			if len(i) > 0 {
				idle = append(idle, minute)
			}
			if len(b) > 0 {
				busy = append(busy, minute)
			}
		}
		if !slices.Equal(idle, c.idle) || !slices.Equal(busy, c.busy) {
			t.Errorf("%s: idle in minutes %v, busy in %v, want %v and %v", name, idle, busy, c.idle, c.busy)
		}
	}
}

func repeatDuties(n int, first, second float64) [][2]float64 {
	return slices.Repeat([][2]float64{{first, second}}, n)
}

// TestIdleGPUsOfNewTasks: a task that has replaced another one has its own idle time, and so has each run.
func TestIdleGPUsOfNewTasks(t *testing.T) {
	rule, now := IdleGPURule{After: time.Minute, Below: 0.05}, time.Unix(0, 0)
	first, second := job.RunID{Name: "a", Run: 1}, job.RunID{Name: "b", Run: 1}
	var tracker IdleGPUTracker
	tracker.Update(rule, []TaskDuty{{TaskID: "a.0.1", Run: first, Known: true}, {TaskID: "b.0.1", Run: second, Known: true}}, now)
	idle, busy := tracker.Update(rule, []TaskDuty{{TaskID: "a.0.2", Run: first, Known: true}, {TaskID: "b.0.1", Run: second, Known: true}}, now.Add(time.Minute))
	if !slices.Equal(idle, []job.RunID{second}) || len(busy) != 0 || len(tracker.since) != 2 {
		t.Errorf("idle %v, busy %v, %d tasks, want b idle and the two tasks that run", idle, busy, len(tracker.since))
	}
}

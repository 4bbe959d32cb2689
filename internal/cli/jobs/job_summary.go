package jobs

import (
	"fmt"
	"math"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// formatTaskCount returns how many of a job's tasks are in the state of the job, and the numbers of all others:
// "2/12, 6 waiting, 3 finished, 1 failed". Tasks that are launched, staged and started count together as starting.
// A job with one task has "1".
func formatTaskCount(j *api.JobView) string {
	count := map[string]int{}
	total := 0
	for state, n := range j.CountTasks() {
		count[stateGroup(state)] += n
		total += n
	}
	if total < 2 {
		return fmt.Sprint(total)
	}
	text := fmt.Sprintf("%d/%d", count[stateGroup(j.State)], total)
	delete(count, stateGroup(j.State))
	for _, state := range job.States() {
		if n := count[stateGroup(state)]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, stateGroup(state))
			delete(count, stateGroup(state))
		}
	}
	return text
}

// stateGroup returns the word under which ps counts tasks of a state.
func stateGroup(s job.State) string {
	switch s {
	case job.Launching, job.Staging, job.Starting:
		return "starting"
	}
	return strings.ToLower(string(s))
}

// taskBarWidth is the length of a bar of tasks, in characters.
const taskBarWidth = 12

// formatTaskBar draws the tasks of a job: those that have finished, failed, are active, and wait
// or were killed. Each of these that has tasks has at least one character. A job with one task
// has none.
func formatTaskBar(j *api.JobView) string {
	count := j.CountTasks()
	total := 0
	for _, n := range count {
		total += n
	}
	if total < 2 {
		return ""
	}
	failed, idle := count[job.Failed]+count[job.Refused]+count[job.Lost], count[job.Waiting]+count[job.Killed]
	parts := [...]int{count[job.Finished], failed, total - count[job.Finished] - failed - idle, idle}
	widths, left := parts, taskBarWidth
	for i, n := range parts {
		if widths[i] = n * taskBarWidth / total; n > 0 {
			widths[i] = max(1, widths[i])
		}
		left -= widths[i]
	}
	for step := 1; left != 0; left -= step {
		if left < 0 {
			step = -1
		}
		best, bestGain := 0, math.MinInt
		for i, n := range parts { // the part whose width is farthest from its share
			if gain := step * (n*taskBarWidth - widths[i]*total); gain > bestGain && n > 0 && widths[i]+step > 0 {
				best, bestGain = i, gain
			}
		}
		widths[best] += step
	}
	var bar strings.Builder
	for i, symbol := range [...]string{term.BarFinished, term.BarFailed, term.BarActive, term.BarIdle} {
		bar.WriteString(strings.Repeat(symbol, widths[i]))
	}
	return bar.String()
}

// formatTaskStates counts a job's tasks by state: "2 running, 6 waiting, 1 failed".
func formatTaskStates(j *api.JobView) string {
	count := j.CountTasks()
	var words []string
	for _, state := range append([]job.State{job.Running}, job.States()...) {
		if n := count[state]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, strings.ToLower(string(state))))
			delete(count, state)
		}
	}
	return strings.Join(words, ", ")
}

// formatUpdated counts the tasks of a service that have its present version: "3 of 8 tasks".
func formatUpdated(j *api.JobView) string {
	updated := 0
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.Version == j.Version && t.KillReason != job.KillByScaling {
			updated++
		}
	}
	return fmt.Sprintf("%d of %d %s", updated, j.WantedTasks(), gpu.Plural(j.WantedTasks(), "task"))
}

// jobTimes are the times of a job's life; zero for what has not happened.
type jobTimes struct{ submitted, started, ended time.Time }

// timesOf returns a job's times. It started with the first of its known attempts; lists
// of jobs have only the last attempt of each task.
func timesOf(j *api.JobView) jobTimes {
	times := jobTimes{submitted: j.Submitted}
	for _, tasks := range [][]job.Task{j.Attempts, j.Tasks} {
		for i := range tasks {
			if start := tasks[i].Started; !start.IsZero() && (times.started.IsZero() || start.Before(times.started)) {
				times.started = start
			}
			if end := tasks[i].Ended; j.Terminal && end.After(times.ended) {
				times.ended = end
			}
		}
	}
	return times
}

// queueTime returns the time until the first task started, or until the end of a job that
// never started.
func (t jobTimes) queueTime(now time.Time) time.Duration {
	switch {
	case !t.started.IsZero():
		return t.started.Sub(t.submitted)
	case !t.ended.IsZero():
		return t.ended.Sub(t.submitted)
	default:
		return now.Sub(t.submitted)
	}
}

// formatDuration returns the time from the start to the end, or until now, and "-" before
// the start.
func (t jobTimes) formatDuration(now time.Time) string {
	switch {
	case t.started.IsZero():
		return "-"
	case !t.ended.IsZero():
		now = t.ended
	}
	return term.FormatDuration(now.Sub(t.started))
}

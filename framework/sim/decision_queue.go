package sim

import (
	"math"
	"slices"

	"mesos-gpu/framework/sched/fit"
)

// decisionQueue contains the tasks that have arrived and wait. With capacity 1 each task is placed when it arrives.
// With more, the next task is the one for which the policy finds the best place, the largest among equals.
type decisionQueue struct {
	// capacity is how many tasks wait before one is placed.
	capacity int
	// tasks wait, in the order of arrival. decided counts those that were removed.
	tasks   []queuedTask
	decided int
}

// queuedTask is a task that waits.
type queuedTask struct {
	task *RecordedTask
	// demand is the converted demand of task.
	demand fit.Demand
	since  int // decisions made when it arrived
}

// addTask adds a task and returns the one to place now, nil while fewer tasks than the capacity wait.
func (q *decisionQueue) addTask(task *RecordedTask, c *fit.Cluster) *RecordedTask {
	q.tasks = append(q.tasks, queuedTask{task, task.fitDemand(), q.decided})
	if len(q.tasks) < max(q.capacity, 1) {
		return nil
	}
	return q.nextTask(c)
}

// nextTask removes and returns the task to place now, nil if none waits. A task that has waited for twice as many
// decisions as the capacity is next.
func (q *decisionQueue) nextTask(c *fit.Cluster) *RecordedTask {
	if len(q.tasks) == 0 {
		return nil
	}
	at := 0
	if len(q.tasks) > 1 && q.decided-q.tasks[0].since < 2*q.capacity {
		at = q.bestTask(c)
	}
	task := q.tasks[at].task
	q.tasks = slices.Delete(q.tasks, at, at+1)
	q.decided++
	return task
}

// bestTask returns the index of the task with the best place, the largest among equals, and of those the first. A task that
// fits nowhere has the score 0.
func (q *decisionQueue) bestTask(c *fit.Cluster) int {
	best, most, largest := 0, int64(math.MinInt64), int64(0)
	for i := range q.tasks {
		w := &q.tasks[i]
		k := c.BestScore(&w.demand)
		if k > most || k == most && w.task.totalMilli() > largest {
			best, most, largest = i, k, w.task.totalMilli()
		}
	}
	return best
}

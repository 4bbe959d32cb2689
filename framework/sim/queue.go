package sim

import (
	"math"
	"slices"

	"mesos-gpu/framework/sched/fit"
)

// queue is the tasks that have arrived and wait. With one place in it each is
// decided on as it arrives; with more, the one goes first that the policy
// finds the best place for, the largest among equals.
type queue struct {
	places  int
	tasks   []waiting
	decided int
}

type waiting struct {
	task   *Task
	demand fit.Demand
	since  int // decisions made when it arrived
}

// put adds a task and returns the one that is to be decided on now, nil as
// long as there are places for more to wait.
func (q *queue) put(task *Task, c *fit.Cluster) *Task {
	q.tasks = append(q.tasks, waiting{task, task.demand(), q.decided})
	if len(q.tasks) < max(q.places, 1) {
		return nil
	}
	return q.next(c)
}

// next takes the task out that goes now; nil if none waits. The wait is
// bounded: after twice as many decisions as may wait the oldest goes.
func (q *queue) next(c *fit.Cluster) *Task {
	if len(q.tasks) == 0 {
		return nil
	}
	at := 0
	if len(q.tasks) > 1 && q.decided-q.tasks[0].since < 2*q.places {
		at = q.best(c)
	}
	task := q.tasks[at].task
	q.tasks = slices.Delete(q.tasks, at, at+1)
	q.decided++
	return task
}

func (q *queue) best(c *fit.Cluster) int {
	best, most, asks := 0, int64(math.MinInt64), int64(0)
	for i := range q.tasks {
		w := &q.tasks[i]
		k := c.Best(&w.demand)
		if k > most || k == most && w.task.milli() > asks {
			best, most, asks = i, k, w.task.milli()
		}
	}
	return best
}

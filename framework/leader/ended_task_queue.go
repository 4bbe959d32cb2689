package leader

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
)

const (
	// copyPause is the time between the end of a task and its copy. What ends meanwhile is copied together.
	copyPause = time.Second
	// copyRetry is the time after which a failed copy is repeated, and the longest time between two looks at the queue.
	copyRetry = time.Minute
	// copyGiveUp is how long after a task's end a failed copy is repeated. Agents keep sandboxes for days, but one
	// that was removed from the cluster never answers.
	copyGiveUp = 24 * time.Hour
	// maxCopies bounds the tasks that are copied at a time: all data passes through the scheduler. maxRepeatedCopies bounds
	// those of them whose copies have failed before: an agent that does not answer must not delay the copies of other tasks.
	maxCopies, maxRepeatedCopies = 4, 2
)

// endedTaskQueue copies something of each ended task from its agent. One goroutine runs it; only its workers use finished.
type endedTaskQueue struct {
	leader *Leader
	// failure is the log's message about a failed copy.
	failure string
	// needsCopy reports whether an ended task has something to copy. It must not call the read model.
	needsCopy func(*readmodel.EndedTask) bool
	// copyTask copies it. An error means that the copy is to be repeated.
	copyTask func(context.Context, *readmodel.EndedTask) error

	// pending are the ended tasks that are not copied yet, by id, and added counts all of them so far.
	pending map[string]*pendingCopy
	added   int
	// due are those of them to copy next, in this order. running counts those that are being copied, and repeated those of
	// these whose copies have failed before.
	due               []string
	running, repeated int
	// loggedAt is when failures were last logged, by agent.
	loggedAt map[string]time.Time
	// finished receives the results of the workers.
	finished chan finishedCopy
	workers  sync.WaitGroup
}

// pendingCopy is the state of a task in the queue.
type pendingCopy struct {
	// number orders the tasks by when they were added.
	number int
	agent  string
	// retryAt is when the copy that has failed is to be repeated; zero if none has failed.
	retryAt time.Time
	running bool
}

// finishedCopy is the result of a copy. The copy is to be repeated if there is an error.
type finishedCopy struct {
	task string
	err  error
}

func newEndedTaskQueue(
	l *Leader, failure string, needsCopy func(*readmodel.EndedTask) bool, copyTask func(context.Context, *readmodel.EndedTask) error,
) *endedTaskQueue {
	return &endedTaskQueue{
		leader: l, failure: failure, needsCopy: needsCopy, copyTask: copyTask,
		pending: map[string]*pendingCopy{}, loggedAt: map[string]time.Time{}, finished: make(chan finishedCopy, maxCopies),
	}
}

// run copies after each end of a task, and what ended before, until ctx ends. It returns when its workers have ended.
func (q *endedTaskQueue) run(ctx context.Context) {
	defer q.workers.Wait()
	for ctx.Err() == nil {
		changes, err := q.leader.Model.WatchEvents(ctx, request.EventQuery{LiveOnly: true})
		if err != nil {
			return // the model publishes nothing further
		}
		q.copyUntilMissed(ctx, changes)
	}
}

// copyUntilMissed copies until the stream of changes ends or has lost some. It starts with a search for all ended tasks, so
// that the caller only needs to call it with a new stream.
func (q *endedTaskQueue) copyUntilMissed(ctx context.Context, changes <-chan request.EventBatch) {
	look := time.NewTimer(copyPause) // by then the stream has begun: it does not report tasks that ended before
	defer look.Stop()
	searched, soon := false, true // soon reports whether the next look comes within copyPause
	for {
		select {
		case batch, ok := <-changes:
			if !ok || batch.Missed {
				return
			}
			ended := false
			for i := range batch.Events {
				if e := &batch.Events[i]; !e.State.IsLive() {
					ended = q.addByID(e.Task) || ended
				}
			}
			if ended && !soon {
				soon = true
				look.Reset(copyPause)
			}
		case <-look.C:
			if !searched {
				q.leader.Model.VisitEndedTasks(q.add)
				searched = true
			}
			soon = false
			look.Reset(q.findDue())
		case f := <-q.finished:
			q.finishCopy(ctx, f)
		case <-ctx.Done():
			return
		}
		q.startCopies(ctx)
	}
}

// add adds a task to the queue, if it needs a copy.
func (q *endedTaskQueue) add(e *readmodel.EndedTask) {
	if q.pending[e.Task.ID] == nil && q.needsCopy(e) {
		q.added++
		q.pending[e.Task.ID] = &pendingCopy{number: q.added, agent: e.Task.AgentID}
	}
}

// addByID adds a task that has ended, and reports whether the queue has it.
func (q *endedTaskQueue) addByID(id string) bool {
	if e, ok := q.leader.Model.FindEndedTask(id); ok {
		q.add(&e)
	}
	return q.pending[id] != nil
}

// findDue puts into q.due the tasks that are to be copied now: those without a failed copy first. It returns the time until the
// next look.
func (q *endedTaskQueue) findDue() (wait time.Duration) {
	now := time.Now() // with the monotonic clock: a changed time of day does not postpone copies
	maps.DeleteFunc(q.loggedAt, func(_ string, at time.Time) bool { return now.Sub(at) >= copyRetry })
	q.due, wait = nil, copyRetry
	for id, p := range q.pending {
		switch {
		case p.running:
		case p.retryAt.After(now):
			wait = min(wait, max(p.retryAt.Sub(now), copyPause))
		default:
			q.due = append(q.due, id)
		}
	}
	slices.SortFunc(q.due, func(x, y string) int {
		a, b := q.pending[x], q.pending[y]
		return cmp.Or(a.retryAt.Compare(b.retryAt), cmp.Compare(a.number, b.number))
	})
	return wait
}

// startCopies starts as many of the due copies as the limits permit. It forgets tasks that the read model has forgotten.
func (q *endedTaskQueue) startCopies(ctx context.Context) {
	for len(q.due) > 0 && q.running < maxCopies {
		id := q.due[0]
		p := q.pending[id]
		if !p.retryAt.IsZero() && q.repeated >= maxRepeatedCopies {
			return // tasks without a failed copy are before it
		}
		q.due = q.due[1:]
		e, ok := q.leader.Model.FindEndedTask(id)
		if !ok || !q.needsCopy(&e) {
			delete(q.pending, id)
			continue
		}
		q.countRunning(p, 1)
		q.workers.Go(func() { q.finished <- finishedCopy{id, q.copyTask(ctx, &e)} })
	}
}

// countRunning counts the start of a copy, or its end for -1.
func (q *endedTaskQueue) countRunning(p *pendingCopy, n int) {
	p.running = n > 0
	q.running += n
	if !p.retryAt.IsZero() {
		q.repeated += n
	}
}

// finishCopy records the result of a copy. If there was no connection, the other due copies from that agent are postponed as
// well: each attempt may take as long as a connection's timeout.
func (q *endedTaskQueue) finishCopy(ctx context.Context, f finishedCopy) {
	p := q.pending[f.task]
	q.countRunning(p, -1)
	if f.err == nil {
		delete(q.pending, f.task)
		return
	}
	now := time.Now()
	p.retryAt = now.Add(copyRetry)
	if errors.As(f.err, new(*url.Error)) {
		q.due = slices.DeleteFunc(q.due, func(id string) bool {
			other := q.pending[id]
			if other.agent != p.agent {
				return false
			}
			other.retryAt = p.retryAt
			return true
		})
	}
	if at, ok := q.loggedAt[p.agent]; ctx.Err() == nil && (!ok || now.Sub(at) >= copyRetry) {
		q.loggedAt[p.agent] = now
		q.leader.loop.log.WithFields(logrus.Fields{"task": f.task, "agent": p.agent}).WithError(f.err).Warn(q.failure)
	}
}

package leader

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

const (
	// artifactPause is the time between the end of a task and the search for ended tasks, which finds all that end meanwhile.
	artifactPause = time.Second
	// artifactRetry is the time after which a failed copy is repeated, and the longest time between two searches.
	artifactRetry = time.Minute
	// artifactGiveUp is how long after a task's end a failed copy is repeated. Agents keep sandboxes for days, but one
	// that was removed from the cluster never answers.
	artifactGiveUp = 24 * time.Hour
	// artifactExpiry is the time between two removals of artifacts that are no longer kept.
	artifactExpiry = time.Hour
	// maxArtifactCopies bounds the tasks whose artifacts are copied at a time: all data passes through the scheduler.
	// maxRepeatedCopies bounds those of them whose copies have failed before: an agent that does not answer must not delay
	// the copies of other tasks.
	maxArtifactCopies, maxRepeatedCopies = 4, 2
)

// checkStore returns a Problem for a job with artifacts if the operator has named no
// store.
func (a *ArtifactCopies) checkStore(spec *job.Spec) error {
	if len(spec.Artifacts) == 0 || a.store != nil {
		return nil
	}
	return api.NewProblemf(http.StatusUnprocessableEntity,
		"artifacts: the scheduler's operator has named no store for them (--artifacts): "+
			"copy them by mesos-gpu cp while the agent has the sandbox, or write them to a volume")
}

// ArtifactCopies copies files of ended tasks to a store.
type ArtifactCopies struct {
	leader *Leader
	// store is nil if the operator has named none.
	store *artifacts.Store
}

// CopyArtifacts copies the artifacts of tasks after their ends, until ctx ends. Reports in the store are the only
// record of what was copied, so that a new leader continues where the previous one stopped.
func (a *ArtifactCopies) CopyArtifacts(ctx context.Context) error {
	if a.store == nil {
		return nil
	}
	q := newArtifactQueue()
	defer q.workers.Wait()
	q.workers.Go(func() { a.removeExpired(ctx) })
	for ctx.Err() == nil {
		changes, err := a.leader.Model.WatchEvents(ctx, request.EventQuery{LiveOnly: true})
		if err != nil {
			return nil // the model publishes nothing further
		}
		a.copyUntilMissed(ctx, changes, q)
	}
	return nil
}

// removeExpired removes artifacts that are no longer kept, until ctx ends.
func (a *ArtifactCopies) removeExpired(ctx context.Context) {
	next := time.NewTicker(artifactExpiry)
	defer next.Stop()
	for {
		if err := a.store.RemoveExpired(ctx, a.leader.loop.clock()); err != nil && ctx.Err() == nil {
			a.leader.loop.log.WithError(err).Warn("old artifacts are not removed yet")
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// artifactQueue has the ended tasks whose artifacts are to be copied. Only the goroutine of CopyArtifacts uses it, except
// for ended.
type artifactQueue struct {
	// due are the tasks to copy next, in this order.
	due []readmodel.EndedTask
	// running are the tasks whose artifacts are being copied; the value is true if a copy has failed before.
	running map[string]bool
	// copied are the tasks of the read model that need no further copy.
	copied map[string]bool
	// retryAt is when the copies that have failed are to be repeated, by task. A task keeps it until a copy succeeds.
	retryAt map[string]time.Time
	// loggedAt is when failures were last logged, by agent.
	loggedAt map[string]time.Time
	// ended receives the results of the workers.
	ended   chan endedCopy
	workers sync.WaitGroup
}

// endedCopy is the result of a copy. The copy is to be repeated if there is an error.
type endedCopy struct {
	task *job.Task
	err  error
}

func newArtifactQueue() *artifactQueue {
	return &artifactQueue{
		running: map[string]bool{}, copied: map[string]bool{}, retryAt: map[string]time.Time{}, loggedAt: map[string]time.Time{},
		ended: make(chan endedCopy, maxArtifactCopies),
	}
}

// copyUntilMissed copies after each end of a task, until the stream of changes ends or has lost some. It starts with a
// search for ends, so that the caller only needs to call it with a new stream.
func (a *ArtifactCopies) copyUntilMissed(ctx context.Context, changes <-chan request.EventBatch, q *artifactQueue) {
	search := time.NewTimer(artifactPause) // by then the stream has begun: it does not report tasks that ended before
	defer search.Stop()
	soon := true // whether the next search finds the tasks that end now
	for {
		select {
		case batch, ok := <-changes:
			if !ok || batch.Missed {
				return
			}
			if !soon && slices.ContainsFunc(batch.Events, func(e api.TaskEvent) bool { return !e.State.IsLive() }) {
				soon = true
				search.Reset(artifactPause)
			}
		case <-search.C:
			soon = false
			search.Reset(a.findDueArtifacts(q))
		case r := <-q.ended:
			a.finishCopy(ctx, q, r)
		case <-ctx.Done():
			return
		}
		a.startCopies(ctx, q)
	}
}

// findDueArtifacts puts into q.due the ended tasks that need a copy now: those without a failed copy first. It removes
// tasks that the read model has forgotten, and returns the time until the next search.
func (a *ArtifactCopies) findDueArtifacts(q *artifactQueue) (wait time.Duration) {
	now := time.Now() // with the monotonic clock: a changed time of day does not postpone copies
	present := map[string]bool{}
	q.due = a.leader.Model.ListEndedWithArtifacts(func(id string) bool {
		present[id] = true
		_, running := q.running[id]
		return running || q.copied[id] || q.retryAt[id].After(now)
	})
	slices.SortStableFunc(q.due, func(x, y readmodel.EndedTask) int { return q.retryAt[x.Task.ID].Compare(q.retryAt[y.Task.ID]) })
	maps.DeleteFunc(q.copied, func(id string, _ bool) bool { return !present[id] })
	maps.DeleteFunc(q.retryAt, func(id string, _ time.Time) bool { return !present[id] })
	maps.DeleteFunc(q.loggedAt, func(_ string, at time.Time) bool { return now.Sub(at) >= artifactRetry })
	wait = artifactRetry
	for _, at := range q.retryAt {
		if at.After(now) {
			wait = min(wait, max(at.Sub(now), artifactPause))
		}
	}
	return wait
}

// startCopies starts as many of the due copies as the limits permit.
func (a *ArtifactCopies) startCopies(ctx context.Context, q *artifactQueue) {
	for len(q.due) > 0 && len(q.running) < maxArtifactCopies {
		e := q.due[0]
		_, repeated := q.retryAt[e.Task.ID]
		if repeated && q.countRepeated() >= maxRepeatedCopies {
			return // tasks without a failed copy are before it
		}
		q.due = q.due[1:]
		q.running[e.Task.ID] = repeated
		q.workers.Go(func() { q.ended <- endedCopy{&e.Task, a.copyTaskArtifacts(ctx, &e)} })
	}
}

// countRepeated returns the number of running copies that have failed before.
func (q *artifactQueue) countRepeated() (n int) {
	for _, repeated := range q.running {
		if repeated {
			n++
		}
	}
	return n
}

// finishCopy records the result of a copy. If there was no connection, the other due copies from that agent are postponed as
// well: each attempt may take as long as a connection's timeout.
func (a *ArtifactCopies) finishCopy(ctx context.Context, q *artifactQueue, r endedCopy) {
	delete(q.running, r.task.ID)
	if r.err == nil {
		q.copied[r.task.ID] = true
		delete(q.retryAt, r.task.ID)
		return
	}
	now := time.Now()
	q.retryAt[r.task.ID] = now.Add(artifactRetry)
	if errors.As(r.err, new(*url.Error)) {
		q.due = slices.DeleteFunc(q.due, func(e readmodel.EndedTask) bool {
			if e.Task.AgentID != r.task.AgentID {
				return false
			}
			q.retryAt[e.Task.ID] = now.Add(artifactRetry)
			return true
		})
	}
	if at, ok := q.loggedAt[r.task.AgentID]; ctx.Err() == nil && (!ok || now.Sub(at) >= artifactRetry) {
		q.loggedAt[r.task.AgentID] = now
		a.leader.loop.log.WithFields(logrus.Fields{"task": r.task.ID, "agent": r.task.AgentID}).WithError(r.err).Warn("artifacts are not copied yet")
	}
}

// copyTaskArtifacts copies the artifacts of one task, unless there is a report. A failure is recorded as final if the
// sandbox does not exist, or if copies have failed for artifactGiveUp; until then the error means that the copy is to be
// repeated.
func (a *ArtifactCopies) copyTaskArtifacts(ctx context.Context, e *readmodel.EndedTask) error {
	t := &e.Task
	if r, err := a.store.FindReport(ctx, t); err != nil || r != nil {
		return err
	}
	now := a.leader.loop.clock()
	if t.AgentID == "" || a.store.IsExpired(t.Ended, now) {
		return nil // it never ran, or its artifacts were removed
	}
	sandbox, err := a.leader.Reader.FindSandbox(ctx, *t)
	switch {
	case err == nil:
		_, err = a.store.Copy(ctx, t, e.Owner, e.Paths, sandbox, now)
	case errors.Is(err, request.ErrNoFile):
		_, err = a.store.RecordFailure(ctx, t, "the agent has no sandbox of the task", now)
	}
	if err != nil && ctx.Err() == nil && now.Sub(t.Ended) > artifactGiveUp {
		_, err = a.store.RecordFailure(ctx, t, err.Error(), now)
	}
	return err
}

// ListArtifacts returns the reports of a job's tasks that have run. Copied is zero in those of tasks whose artifacts
// are not copied yet.
func (a *ArtifactCopies) ListArtifacts(ctx context.Context, name string) (api.ArtifactList, error) {
	list := api.ArtifactList{Tasks: []api.ArtifactReport{}}
	j, ok := a.leader.Model.CopyJob(name)
	if !ok {
		return list, api.UnknownJob(name)
	}
	if len(j.Spec.Artifacts) == 0 || a.store == nil {
		return list, nil
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.AgentID == "" {
			continue
		}
		r, err := a.store.FindReport(ctx, t)
		if err != nil {
			return list, err
		}
		if r == nil {
			r = &api.ArtifactReport{Task: t.ID, Index: t.Index, Files: []api.Artifact{}}
			if !t.State.IsLive() && a.store.IsExpired(t.Ended, a.leader.loop.clock()) {
				r.Error = "the artifacts were removed at the end of the time for which the scheduler keeps them"
			}
		}
		list.Tasks = append(list.Tasks, *r)
	}
	return list, nil
}

// FindSandbox returns the sandbox of a task or, if its agent does not have it any more, the
// artifacts that were copied from it.
func (l *Leader) FindSandbox(ctx context.Context, t job.Task) (request.TaskSandbox, error) {
	sandbox, err := l.Reader.FindSandbox(ctx, t)
	if err != nil && l.Artifacts.store != nil && !t.State.IsLive() {
		if stored := l.Artifacts.store.FindSandbox(ctx, &t); stored != nil {
			return stored, nil
		}
	}
	return sandbox, err
}

package leader

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// artifactExpiry is the time between two removals of artifacts that are no longer kept.
const artifactExpiry = time.Hour

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
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { a.removeExpired(ctx) })
	a.newQueue().run(ctx)
	return nil
}

// newQueue returns the queue of the tasks whose artifacts are to be copied.
func (a *ArtifactCopies) newQueue() *endedTaskQueue {
	needsCopy := func(e *readmodel.EndedTask) bool { return len(e.Paths) > 0 && !e.HasLaterAttempt }
	return newEndedTaskQueue(a.leader, "artifacts are not copied yet", needsCopy, a.copyTaskArtifacts)
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

// copyTaskArtifacts copies the artifacts of one task, unless there is a report. A failure is recorded as final if the
// sandbox does not exist, or if copies have failed for copyGiveUp; until then the error means that the copy is to be
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
	if err != nil && ctx.Err() == nil && now.Sub(t.Ended) > copyGiveUp {
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

package leader

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/job"
)

const (
	// artifactPause is the shortest time between two searches for ended tasks, and
	// artifactRetry the longest: a copy that failed is tried again.
	artifactPause, artifactRetry = time.Second, time.Minute
	// artifactGiveUp is how long after a task's end a failed copy is repeated. Agents keep sandboxes for days, but one
	// that was removed from the cluster never answers.
	artifactGiveUp = 24 * time.Hour
	// maxArtifactCopies bounds the tasks whose artifacts are copied at a time: all data passes through the scheduler.
	maxArtifactCopies = 4
)

// checkArtifacts returns a Problem for a job with artifacts if the operator has named no
// store.
func (b *Leader) checkArtifacts(spec *job.Spec) error {
	if len(spec.Artifacts) == 0 || b.artifacts != nil {
		return nil
	}
	return api.NewProblemf(http.StatusUnprocessableEntity, "artifacts: the scheduler's operator has named no store for them (--artifacts): copy them by mesos-gpu cp while the agent has the sandbox, or write them to a volume")
}

// CopyArtifacts copies the artifacts of tasks after their ends, until ctx ends. Reports in the store are the only
// record of what was copied, so that a new leader continues where the previous one stopped.
func (b *Leader) CopyArtifacts(ctx context.Context) error {
	if b.artifacts == nil {
		return nil
	}
	copied := map[string]bool{} // the tasks of the read model that need no further copy
	for ctx.Err() == nil {
		changes, err := b.Model.WatchEvents(ctx, apiserver.EventQuery{LiveOnly: true})
		if err != nil {
			return nil // the model publishes nothing further
		}
		b.copyUntilMissed(ctx, changes, copied)
	}
	return nil
}

// copyUntilMissed copies after each end of a task, until the stream of changes ends or has lost some. It starts with a
// search for ends, so that the caller only needs a new stream.
func (b *Leader) copyUntilMissed(ctx context.Context, changes <-chan apiserver.EventBatch, copied map[string]bool) {
	for {
		b.copyEnded(ctx, copied)
		retry := time.After(artifactRetry)
		for ended := false; !ended; {
			select {
			case batch, ok := <-changes:
				if !ok || batch.Missed {
					return
				}
				for _, e := range batch.Events {
					ended = ended || !e.State.IsLive()
				}
			case <-retry:
				ended = true
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(artifactPause):
		case <-ctx.Done():
			return
		}
	}
}

// copyEnded copies the artifacts of all ended tasks that are not in copied, and adds those that need no further copy. It
// removes tasks that the read model has forgotten.
func (b *Leader) copyEnded(ctx context.Context, copied map[string]bool) {
	present := map[string]bool{}
	due := b.Model.ListEndedWithArtifacts(func(id string) bool {
		present[id] = true
		return copied[id]
	})
	maps.DeleteFunc(copied, func(id string, _ bool) bool { return !present[id] })
	var mu sync.Mutex // protects copied
	var running sync.WaitGroup
	slots := make(chan struct{}, maxArtifactCopies)
	for _, e := range due {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			done, err := b.copyTaskArtifacts(ctx, &e.Task, e.Paths)
			if err != nil && ctx.Err() == nil {
				b.loop.log.WithField("task", e.Task.ID).WithError(err).Warn("artifacts are not copied yet")
			}
			mu.Lock()
			defer mu.Unlock()
			if done {
				copied[e.Task.ID] = true
			}
		})
	}
	running.Wait()
}

// copyTaskArtifacts copies the artifacts of one task, unless there is a report. It reports
// whether nothing is left to do. A failure is recorded as final if the sandbox does not exist, or if copies have failed
// for artifactGiveUp; until then the error means that the copy is to be repeated.
func (b *Leader) copyTaskArtifacts(ctx context.Context, t *job.Task, paths []string) (done bool, err error) {
	if r, err := b.artifacts.FindReport(ctx, t); err != nil || r != nil {
		return r != nil, err
	}
	now := b.loop.clock()
	if t.AgentID == "" {
		return true, nil // it never ran
	}
	sandbox, err := b.Reader.FindSandbox(ctx, *t)
	switch {
	case err == nil:
		_, err = b.artifacts.Copy(ctx, t, paths, sandbox, now)
	case errors.Is(err, apiserver.ErrNoFile):
		_, err = b.artifacts.RecordFailure(ctx, t, "the agent has no sandbox of the task", now)
	}
	if err != nil && ctx.Err() == nil && now.Sub(t.Ended) > artifactGiveUp {
		_, err = b.artifacts.RecordFailure(ctx, t, err.Error(), now)
	}
	return err == nil, err
}

// ListArtifacts returns the reports of a job's tasks that have run. Copied is zero in those of tasks whose artifacts
// are not copied yet.
func (b *Leader) ListArtifacts(ctx context.Context, name string) (api.ArtifactList, error) {
	list := api.ArtifactList{Tasks: []api.ArtifactReport{}}
	j, ok := b.Model.CopyJob(name)
	if !ok {
		return list, api.UnknownJob(name)
	}
	if len(j.Spec.Artifacts) == 0 || b.artifacts == nil {
		return list, nil
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.AgentID == "" {
			continue
		}
		r, err := b.artifacts.FindReport(ctx, t)
		if err != nil {
			return list, err
		}
		if r == nil {
			r = &api.ArtifactReport{Task: t.ID, Index: t.Index, Files: []api.Artifact{}}
		}
		list.Tasks = append(list.Tasks, *r)
	}
	return list, nil
}

// FindSandbox returns the sandbox of a task or, if its agent does not have it any more, the
// artifacts that were copied from it.
func (b *Leader) FindSandbox(ctx context.Context, t job.Task) (apiserver.TaskSandbox, error) {
	sandbox, err := b.Reader.FindSandbox(ctx, t)
	if err != nil && b.artifacts != nil && !t.State.IsLive() {
		if stored := b.artifacts.FindSandbox(ctx, &t); stored != nil {
			return stored, nil
		}
	}
	return sandbox, err
}

package leader

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/workdir"
	"mesos-gpu/framework/workdirstore"
	"mesos-gpu/job"
)

// workdirCleanupInterval is how often unused archives are removed.
const workdirCleanupInterval = 10 * time.Minute

// checkStored returns a Problem if the archive of a working folder is not stored or if the requester may not use it, "" being
// none. It keeps the archive for a grace time, within which the job must be recorded.
func (w *Workdirs) checkStored(by *access.Grant, digest string) error {
	if digest == "" {
		return nil
	}
	_, err := w.findUsable(by, digest)
	return workdirProblem(err, digest)
}

// findUsable returns the size of an archive that the requester may use: one that the requester has uploaded, or the folder of a
// job whose files the requester may read. Any other archive does not exist for the requester: the digest alone is no right to it.
func (w *Workdirs) findUsable(by *access.Grant, digest string) (bytes int64, err error) {
	if by != nil && !w.store.IsUploader(digest, by.UserName()) && !w.leader.Model.HasJobInWorkdir(digest, by.CanReadOutput) {
		return 0, w.store.UnknownError(digest)
	}
	return w.store.Find(digest, w.leader.loop.clock())
}

// workdirProblem converts an error of the store to the client's problem.
func workdirProblem(err error, digest string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, workdirstore.ErrUnknown):
		return api.NewProblemf(http.StatusUnprocessableEntity, "%w: upload it, and submit the job again", err).WithCode(api.CodeWorkdirNotFound, digest)
	case errors.As(err, new(*workdir.SizeError)):
		return api.NewProblemf(http.StatusRequestEntityTooLarge, "%w", err)
	case errors.Is(err, workdirstore.ErrInvalid):
		return api.NewProblemf(http.StatusUnprocessableEntity, "%w", err)
	case errors.Is(err, workdirstore.ErrFull):
		return api.NewProblemf(http.StatusInsufficientStorage, "%w", err)
	}
	return err
}

// Workdirs stores the archives of working folders.
type Workdirs struct {
	leader *Leader
	store  *workdirstore.ArchiveStore
}

// FindWorkdir returns the size of a stored archive that the requester may use. The archive is then kept for a while.
func (w *Workdirs) FindWorkdir(_ context.Context, by *access.Grant, digest string) (api.StoredWorkdir, error) {
	bytes, err := w.findUsable(by, digest)
	if errors.Is(err, workdirstore.ErrUnknown) {
		return api.StoredWorkdir{}, api.NewProblemf(http.StatusNotFound, "%w", err).WithCode(api.CodeWorkdirNotFound, digest)
	}
	return api.StoredWorkdir{Workdir: digest, Bytes: bytes}, err
}

// StoreWorkdir stores an archive of the requester.
func (w *Workdirs) StoreWorkdir(ctx context.Context, by *access.Grant, digest string, archive io.Reader) (stored api.StoredWorkdir, created bool, err error) {
	created, err = w.store.Put(ctx, by.UserName(), digest, archive, w.leader.loop.clock(), func() (map[string]bool, error) { return w.liveWorkdirs(ctx) })
	if err != nil {
		return stored, false, workdirProblem(err, digest)
	}
	stored, err = w.FindWorkdir(ctx, by, digest)
	return stored, created, err
}

// liveWorkdirs returns the archives that must be kept: those of live jobs and of
// schedules. It fails if a schedule cannot be read: its archive is not known then, and none may be removed.
func (w *Workdirs) liveWorkdirs(ctx context.Context) (digests map[string]bool, err error) {
	err = w.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		digests = w.leader.Model.LiveWorkdirs()
		for name, p := range w.leader.Schedules.cache.allSchedules(st) {
			if p.err != nil {
				return api.NewProblemf(http.StatusInternalServerError, "schedule %q cannot be read, so that its working folder is not known: %w", name, p.err)
			}
			if w := p.entry.Spec.Workdir; w != "" {
				digests[w] = true
			}
		}
		return nil
	})
	return digests, err
}

// CleanWorkdirs removes archives that are no longer used, until ctx ends.
func (w *Workdirs) CleanWorkdirs(ctx context.Context) error {
	for {
		w.removeUnusedWorkdirs(ctx)
		select {
		case <-time.After(workdirCleanupInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// removeUnusedWorkdirs removes unused archives once, and logs a failure.
func (w *Workdirs) removeUnusedWorkdirs(ctx context.Context) {
	live, err := w.liveWorkdirs(ctx)
	removed := 0
	if err == nil {
		removed, err = w.store.RemoveUnused(w.leader.loop.clock(), live)
	}
	if err != nil && ctx.Err() == nil {
		w.leader.loop.log.WithError(err).Warn("unused working folders are kept")
	}
	if removed > 0 {
		w.leader.loop.log.WithField("removed", removed).Info("removed unused working folders")
	}
}

// OpenWorkdir opens the archive of a run for an agent. The token is valid only while a
// task of the run starts: the agent's fetcher writes the URL to the task's output, which
// other users may read later.
func (w *Workdirs) OpenWorkdir(_ context.Context, run job.RunID, token string) (*os.File, error) {
	digests := w.leader.Model.StartingWorkdirs(run)
	i := slices.IndexFunc(digests, func(digest string) bool { return w.store.CheckToken(run, digest, token) })
	if i < 0 {
		return nil, request.UnknownArchive()
	}
	digest := digests[i]
	f, err := w.store.Open(digest)
	if errors.Is(err, workdirstore.ErrUnknown) {
		return nil, api.NewProblemf(http.StatusNotFound, "%w", err).WithCode(api.CodeWorkdirNotFound, digest)
	}
	return f, err
}

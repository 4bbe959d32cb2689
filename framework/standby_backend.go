package framework

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/election"
	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/job"
)

// standbyBackend answers the APIConfig out of a view that follows the leader's journal.
type standbyBackend struct {
	clusterReader
	s             *Scheduler
	session       *zkconn.Session
	path          string
	refreshWanted chan struct{}
	queuePages    queueOrderCache

	mu        sync.Mutex
	refreshed chan struct{} // closed when the view is confirmed next
}

func newStandby(s *Scheduler, session *zkconn.Session, path string) *standbyBackend {
	return &standbyBackend{
		clusterReader: clusterReader{view: newView(journal.JournalContents{})}, s: s, session: session, path: path,
		refreshWanted: make(chan struct{}, 1), refreshed: make(chan struct{}),
	}
}

// followJournal keeps the view up to date. It answers once there is one.
func (b *standbyBackend) followJournal(ctx context.Context) error {
	client, err := b.s.cfg.newMasterClient("")
	if err != nil {
		return err
	}
	b.client = client
	ctx, cancel := context.WithCancel(ctx)
	var detecting sync.WaitGroup
	detecting.Go(func() { client.FollowLeader(ctx) })
	defer detecting.Wait()
	defer cancel()
	return journal.FollowJournal(ctx, b.session, b.path+journalFolder, b)
}

func (b *standbyBackend) endSession() {
	b.s.setBackend(api.NewUnavailableBackend("this scheduler has lost its session with ZooKeeper"))
	b.closeListeners()
}

// closeListeners ends what still listens, once another answers.
func (b *standbyBackend) closeListeners() {
	b.view.hub.closeListeners()
	if b.client != nil {
		b.client.Close()
	}
}

// ReplaceAll, Apply, Fresh and Wanted make it a journal.Replica.
func (b *standbyBackend) ReplaceAll(all journal.JournalContents) { b.view.Reset(all) }
func (b *standbyBackend) ApplyChange(c journal.Change)           { b.view.Apply(c) }
func (b *standbyBackend) RefreshRequests() <-chan struct{}       { return b.refreshWanted }

func (b *standbyBackend) ConfirmUpToDate(asked time.Time) {
	if b.view.confirmedAt().IsZero() {
		b.s.setBackend(api.Backend{Reads: b, Redirect: b.LeaderRedirect})
	}
	b.view.Fresh(asked)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.refreshed)
	b.refreshed = make(chan struct{})
}

// catchUpTimeout is how long a standby tries to find out about what it does not
// know: a client that has just submitted a job may ask for it here.
const catchUpTimeout = 2 * time.Second

// catchUp waits until the view has all that was recorded before now.
func (b *standbyBackend) catchUp(ctx context.Context) error {
	since := time.Now()
	limit := time.After(catchUpTimeout)
	for !b.view.confirmedAt().After(since) {
		b.mu.Lock()
		fresh := b.refreshed
		b.mu.Unlock()
		select {
		case b.refreshWanted <- struct{}{}:
		default: // others want it too
		}
		select {
		case <-fresh:
		case <-limit:
			return api.NewUnavailable("this standby is not up to date: it does not hear from ZooKeeper")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// retryAfterCatchUp asks again after a catch-up where find finds nothing.
func (b *standbyBackend) retryAfterCatchUp(ctx context.Context, find func() error) error {
	err := find()
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != http.StatusNotFound {
		return err
	}
	if err := b.catchUp(ctx); err != nil {
		return err
	}
	return find()
}

// CheckReady wants a leader to send changes to, and to be up to date.
func (b *standbyBackend) CheckReady(ctx context.Context) error {
	if _, err := b.findLeader(ctx); err != nil {
		return api.NewUnavailable("this standby does not know the leader: %v", err)
	}
	return b.catchUp(ctx)
}

func (b *standbyBackend) AsOf() time.Time { return b.view.confirmedAt() }

func (b *standbyBackend) ListJobs(_ context.Context, q api.JobQuery) (api.JobList, error) {
	return b.view.listJobs(q)
}

func (b *standbyBackend) GetJob(ctx context.Context, name string) (view api.JobView, err error) {
	err = b.retryAfterCatchUp(ctx, func() (err error) { view, err = b.view.jobView(name); return err })
	return view, err
}

func (b *standbyBackend) GetTask(ctx context.Context, id string) (t job.Task, err error) {
	err = b.retryAfterCatchUp(ctx, func() (err error) { t, err = b.view.findTask(id); return err })
	return t, err
}

func (b *standbyBackend) OwnerOf(ctx context.Context, job, task string) (role, owner string, err error) {
	err = b.retryAfterCatchUp(ctx, func() (err error) { role, owner, err = b.view.ownerOf(job, task); return err })
	return role, owner, err
}

func (b *standbyBackend) WatchEvents(ctx context.Context, q api.EventQuery) (now []api.TaskEvent, changes <-chan api.TaskEvent, err error) {
	err = b.retryAfterCatchUp(ctx, func() (err error) { now, changes, err = b.clusterReader.WatchEvents(ctx, q); return err })
	return now, changes, err
}

// findLeader finds out who leads, now.
func (b *standbyBackend) findLeader(ctx context.Context) (string, error) {
	m, err := election.FindLeader(ctx, b.session, b.path+electionFolder)
	return m.URL, err
}

// LeaderRedirect sends a write to the leader.
func (b *standbyBackend) LeaderRedirect(ctx context.Context) error {
	url, err := b.findLeader(ctx)
	switch {
	case err != nil:
		return api.NewUnavailable("this scheduler is a standby and does not know the leader: %v", err)
	case url == b.s.url:
		return api.NewUnavailable("this scheduler is about to lead: ask again")
	}
	return api.RedirectToLeader(url)
}

// MetricsSnapshot counts what the view has. A standby has no subscription.
func (b *standbyBackend) MetricsSnapshot(context.Context) (metrics.Snapshot, error) {
	return b.view.metricsSnapshot(b.s.cfg.counters, b.s.cfg.Clock()), nil
}

func (b *standbyBackend) GetHealth(ctx context.Context) (api.HealthStatus, error) {
	url, err := b.findLeader(ctx)
	if err != nil && !errors.Is(err, election.ErrNoLeader) {
		return api.HealthStatus{}, fmt.Errorf("ask who leads: %w", err)
	}
	return api.HealthStatus{FrameworkID: b.view.currentFrameworkID(), Role: api.Standby, LeaderURL: url}, nil
}

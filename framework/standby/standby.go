// Package standby serves reads while another scheduler leads. It follows the leader's
// journal, redirects all other requests to the leader, and never writes to the journal.
package standby

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/accounting"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/clusterview"
	"mesos-gpu/framework/election"
	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// Config configures a Standby.
type Config struct {
	// Session is the ZooKeeper session of this scheduler's candidacy.
	Session *zkconn.Session
	// JournalPath and ElectionPath are znodes.
	JournalPath, ElectionPath string
	// URL is the URL of this scheduler's API.
	URL string
	// NewClient returns a client that finds the leading master. The standby
	// closes it.
	NewClient func() (*master.Client, error)
	// Serve is called once the read model is complete. From then on the standby answers reads.
	Serve func(*Standby)
	// Sched are the settings with which reasons and the queue are computed, as the leader does.
	Sched sched.SchedulerSettings
	// LoadPolicy returns the policy that a scheduler elected now would have.
	LoadPolicy func() sched.Policy
	// Counters and Clock belong to the scheduler.
	Counters *metrics.SchedulerCounters
	Clock    func() time.Time
	// Accounting stores the ends of attempts, as the leader's does; nil for none.
	Accounting *accounting.Recorder
}

// Standby serves reads from a read model that follows the leader's journal.
type Standby struct {
	clusterview.Reader
	// cfg is the argument of Run.
	cfg Config
	// refreshWanted has an element while a request waits for the read model to
	// be confirmed.
	refreshWanted chan struct{}
	queuePages    readmodel.QueuePages

	// mu protects refreshed.
	mu        sync.Mutex
	refreshed chan struct{} // closed and replaced when the read model is confirmed
}

// New returns a standby that Run starts.
func New(cfg Config) *Standby {
	return &Standby{
		Reader: clusterview.Reader{Model: readmodel.New(journal.JournalContents{})}, cfg: cfg,
		refreshWanted: make(chan struct{}, 1), refreshed: make(chan struct{}),
	}
}

// Run keeps the read model up to date until ctx ends. It calls Serve once the model is complete.
func (b *Standby) Run(ctx context.Context) error {
	client, err := b.cfg.NewClient()
	if err != nil {
		return err
	}
	b.Client = client
	ctx, cancel := context.WithCancel(ctx)
	var detecting sync.WaitGroup
	detecting.Go(func() { client.FollowLeader(ctx) })
	defer detecting.Wait()
	defer cancel()
	return journal.FollowJournal(ctx, b.cfg.Session, b.cfg.JournalPath, b)
}

// CloseListeners closes the standby's event streams and its master client. It is called once the leader's backend serves the API.
func (b *Standby) CloseListeners() {
	b.Model.CloseListeners()
	if b.Client != nil {
		b.Client.Close()
	}
}

// ReplaceAll, ApplyChange, RefreshRequests and ConfirmUpToDate implement journal.Replica.
func (b *Standby) ReplaceAll(all journal.JournalContents) {
	b.Model.ReplaceAll(all)
	if b.cfg.Accounting != nil {
		b.cfg.Accounting.ObserveAll(b.Model)
	}
}

func (b *Standby) ApplyChange(c journal.Change) {
	b.Model.ApplyChange(c)
	if b.cfg.Accounting != nil {
		b.cfg.Accounting.ObserveChange(b.Model, c)
	}
}

func (b *Standby) RefreshRequests() <-chan struct{} { return b.refreshWanted }

func (b *Standby) ConfirmUpToDate(asked time.Time) {
	if b.Model.ConfirmedAt().IsZero() {
		b.cfg.Serve(b)
	}
	b.Model.ConfirmUpToDate(asked)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.refreshed)
	b.refreshed = make(chan struct{})
}

// catchUpTimeout is how long a standby waits for missing changes: a client that has
// just submitted a job to the leader may request it from a standby.
const catchUpTimeout = 2 * time.Second

// catchUp waits until the read model contains everything recorded before the call.
func (b *Standby) catchUp(ctx context.Context) error {
	since := time.Now()
	limit := time.After(catchUpTimeout)
	for !b.Model.ConfirmedAt().After(since) {
		b.mu.Lock()
		fresh := b.refreshed
		b.mu.Unlock()
		select {
		case b.refreshWanted <- struct{}{}:
		default: // another request already waits for it
		}
		select {
		case <-fresh:
		case <-limit:
			return api.NewUnavailable("this standby is not up to date: it has no connection to ZooKeeper")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// retryAfterCatchUp calls find, and again after a catch-up if the result is 404.
func (b *Standby) retryAfterCatchUp(ctx context.Context, find func() error) error {
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

// CheckReady returns an error unless the leader is known and the read model is up to date.
func (b *Standby) CheckReady(ctx context.Context) error {
	if _, err := b.findLeader(ctx); err != nil {
		return api.NewUnavailable("this standby does not know the leader: %v", err)
	}
	return b.catchUp(ctx)
}

// AsOf returns the time up to which the read model is known to be complete.
func (b *Standby) AsOf() time.Time { return b.Model.ConfirmedAt() }

func (b *Standby) ListJobs(_ context.Context, q request.JobQuery) (api.JobList, error) {
	return b.Model.ListJobs(q)
}

// GetJob returns a job. Like the following methods, it catches up with the journal before
// it returns 404.
func (b *Standby) GetJob(ctx context.Context, name string) (view api.JobView, err error) {
	err = b.retryAfterCatchUp(ctx, func() (err error) { view, err = b.Model.JobView(name); return err })
	return view, err
}

func (b *Standby) GetTask(ctx context.Context, id string) (t job.Task, err error) {
	err = b.retryAfterCatchUp(ctx, func() (err error) { t, err = b.Model.FindTask(id); return err })
	return t, err
}

func (b *Standby) ResolveJob(ctx context.Context, by *access.Grant, reference string) (found request.FoundJob, err error) {
	err = b.retryAfterCatchUp(ctx, func() (err error) { found, err = b.Model.ResolveJob(by, reference); return err })
	return found, err
}

func (b *Standby) OwnerOf(ctx context.Context, job, task string) (role, owner string, err error) {
	err = b.retryAfterCatchUp(ctx, func() (err error) { role, owner, err = b.Model.OwnerOf(job, task); return err })
	return role, owner, err
}

func (b *Standby) WatchEvents(ctx context.Context, q request.EventQuery) (batches <-chan request.EventBatch, err error) {
	err = b.retryAfterCatchUp(ctx, func() (err error) { batches, err = b.Reader.WatchEvents(ctx, q); return err })
	return batches, err
}

// findLeader returns the URL of the current leader.
func (b *Standby) findLeader(ctx context.Context) (string, error) {
	m, err := election.FindLeader(ctx, b.cfg.Session, b.cfg.ElectionPath)
	return m.URL, err
}

// LeaderRedirect returns the redirect of a request to the leader, or an error without a leader.
func (b *Standby) LeaderRedirect(ctx context.Context) error {
	url, err := b.findLeader(ctx)
	switch {
	case err != nil:
		return api.NewUnavailable("this scheduler is a standby and does not know the leader: %v", err)
	case url == b.cfg.URL:
		return api.NewUnavailable("this scheduler becomes the leader: ask again")
	}
	return api.RedirectToLeader(url)
}

// MetricsSnapshot returns the metrics of the read model. A standby is never connected to a master.
func (b *Standby) MetricsSnapshot(context.Context) (metrics.Snapshot, error) {
	s := b.Model.MetricsSnapshot(b.cfg.Counters, b.cfg.Clock())
	s.Accounting = b.cfg.Accounting.Figures()
	return s, nil
}

// GetHealth returns the framework id and the leader's URL, "" without a leader.
func (b *Standby) GetHealth(ctx context.Context) (api.HealthStatus, error) {
	url, err := b.findLeader(ctx)
	if err != nil && !errors.Is(err, election.ErrNoLeader) {
		return api.HealthStatus{}, fmt.Errorf("find the leader: %w", err)
	}
	return api.HealthStatus{FrameworkID: b.Model.CurrentFrameworkID(), Role: api.Standby, LeaderURL: url}, nil
}

// newStateCopy returns a State with the read model's contents. Its decisions have no
// effect, but it orders jobs and counts usage as the leader does.
func (b *Standby) newStateCopy() *sched.State {
	cfg := b.cfg.Sched
	cfg.Policy = b.cfg.LoadPolicy()
	st := sched.New(cfg, b.Model.LiveContents())
	st.Step(b.cfg.Clock(), sched.Cycle{}) // sets its time
	return st
}

// ListQueue returns a page of the queue without the reasons why jobs wait: these depend
// on offers, which a standby does not receive.
func (b *Standby) ListQueue(_ context.Context, by *access.Grant, p api.PageRequest) (api.QueueList, error) {
	order := func() ([]job.RunID, error) { return b.newStateCopy().QueueOrder(), nil }
	return b.queuePages.ListPage(p, by, order, func(name string) (*job.Job, bool) {
		j, ok := b.Model.CopyJob(name)
		return &j, ok
	})
}

// ListRoles returns the roles with their usage, computed from the read model and, for budgets, this scheduler's accounting.
func (b *Standby) ListRoles(ctx context.Context) ([]api.RoleStatus, error) {
	st := b.newStateCopy()
	if err := b.addBudgetUsage(ctx, st); err != nil {
		return nil, err
	}
	list := readmodel.RoleViews(st)
	for i := range list {
		list[i].Entitled = nil // it depends on the agents
	}
	return list, nil
}

// addBudgetUsage adds what is accounted to a copy of the state, if roles have budgets.
func (b *Standby) addBudgetUsage(ctx context.Context, st *sched.State) error {
	if b.cfg.Accounting == nil || !st.HasBudgets() {
		return nil
	}
	until := b.cfg.Clock()
	// Tasks that are placed in the copy count there until now, also if their ends have been recorded since.
	used, err := b.cfg.Accounting.MeasureBudgetUsage(ctx, until, st.IsPlaced)
	if err != nil {
		return fmt.Errorf("read what is used of budgets: %w", err)
	}
	st.Step(until, sched.BudgetUsageMeasured{Until: until, Used: used})
	return nil
}

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

// standby answers the API out of a view that follows the leader's journal.
type standby struct {
	reader
	s       *Scheduler
	session *zkconn.Session
	path    string
	wanted  chan struct{}
	lineups lineups

	mu    sync.Mutex
	fresh chan struct{} // closed when the view is confirmed next
}

func newStandby(s *Scheduler, session *zkconn.Session, path string) *standby {
	return &standby{
		reader: reader{view: newView(journal.Contents{})}, s: s, session: session, path: path,
		wanted: make(chan struct{}, 1), fresh: make(chan struct{}),
	}
}

// run keeps the view up to date. It answers once there is one.
func (b *standby) run(ctx context.Context) error {
	client, err := b.s.cfg.newClient("")
	if err != nil {
		return err
	}
	b.client = client
	ctx, cancel := context.WithCancel(ctx)
	var detecting sync.WaitGroup
	detecting.Go(func() { client.Detect(ctx) })
	defer detecting.Wait()
	defer cancel()
	return journal.Follow(ctx, b.session, b.path+journalFolder, b)
}

func (b *standby) end() {
	b.s.show(nobody{why: "this scheduler has lost its session with ZooKeeper"})
	b.retire()
}

// retire ends what still listens, once another answers.
func (b *standby) retire() {
	b.view.hub.close()
	if b.client != nil {
		b.client.Close()
	}
}

// Reset, Apply, Fresh and Wanted make it a journal.Replica.
func (b *standby) Reset(all journal.Contents) { b.view.Reset(all) }
func (b *standby) Apply(c journal.Change)     { b.view.Apply(c) }
func (b *standby) Wanted() <-chan struct{}    { return b.wanted }

func (b *standby) Fresh(asked time.Time) {
	if b.view.fresh().IsZero() {
		b.s.show(b)
	}
	b.view.Fresh(asked)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.fresh)
	b.fresh = make(chan struct{})
}

// catchUpWait is how long a standby tries to find out about what it does not
// know: a client that has just submitted a job may ask for it here.
const catchUpWait = 2 * time.Second

// catchUp waits until the view has all that was recorded before now.
func (b *standby) catchUp(ctx context.Context) error {
	since := time.Now()
	limit := time.After(catchUpWait)
	for !b.view.fresh().After(since) {
		b.mu.Lock()
		fresh := b.fresh
		b.mu.Unlock()
		select {
		case b.wanted <- struct{}{}:
		default: // others want it too
		}
		select {
		case <-fresh:
		case <-limit:
			return api.NotYet("this standby is not up to date: it does not hear from ZooKeeper")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// certain asks again after a catch-up where find finds nothing.
func (b *standby) certain(ctx context.Context, find func() error) error {
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

// Ready wants a leader to send changes to, and to be up to date.
func (b *standby) Ready(ctx context.Context) error {
	if _, err := b.leading(ctx); err != nil {
		return api.NotYet("this standby does not know the leader: %v", err)
	}
	return b.catchUp(ctx)
}

func (b *standby) AsOf() time.Time { return b.view.fresh() }

func (b *standby) Jobs(_ context.Context, q api.JobQuery) (api.JobList, error) { return b.view.list(q) }

func (b *standby) Job(ctx context.Context, name string) (view api.JobView, err error) {
	err = b.certain(ctx, func() (err error) { view, err = b.view.Job(name); return err })
	return view, err
}

func (b *standby) Task(ctx context.Context, id string) (t job.Task, err error) {
	err = b.certain(ctx, func() (err error) { t, err = b.view.Task(id); return err })
	return t, err
}

func (b *standby) Whose(ctx context.Context, job, task string) (role, owner string, err error) {
	err = b.certain(ctx, func() (err error) { role, owner, err = b.view.whose(job, task); return err })
	return role, owner, err
}

func (b *standby) Events(ctx context.Context, q api.EventQuery) (now []api.Event, changes <-chan api.Event, err error) {
	err = b.certain(ctx, func() (err error) { now, changes, err = b.reader.Events(ctx, q); return err })
	return now, changes, err
}

// leading finds out who leads, now.
func (b *standby) leading(ctx context.Context) (string, error) {
	m, err := election.Leader(ctx, b.session, b.path+electionFolder)
	return m.URL, err
}

// Elsewhere sends a write to the leader.
func (b *standby) Elsewhere(ctx context.Context) error {
	url, err := b.leading(ctx)
	switch {
	case err != nil:
		return api.NotYet("this scheduler is a standby and does not know the leader: %v", err)
	case url == b.s.url:
		return api.NotYet("this scheduler is about to lead: ask again")
	}
	return api.NotLeader(url)
}

func (b *standby) Submit(ctx context.Context, _ job.Spec) (v api.JobView, err error) {
	return v, b.Elsewhere(ctx)
}

func (b *standby) Kill(ctx context.Context, _ string, _ bool) error { return b.Elsewhere(ctx) }

// Metrics counts what the view has. A standby has no subscription.
func (b *standby) Metrics(context.Context) (metrics.Snapshot, error) {
	return b.view.metrics(b.s.cfg.counters, b.s.cfg.Clock()), nil
}

func (b *standby) Health(ctx context.Context) (api.Health, error) {
	url, err := b.leading(ctx)
	if err != nil && !errors.Is(err, election.ErrNoLeader) {
		return api.Health{}, fmt.Errorf("ask who leads: %w", err)
	}
	return api.Health{FrameworkID: b.view.framework(), Role: api.Standby, Leading: url}, nil
}

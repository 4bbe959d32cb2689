package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// killingUsers is the number of users that kill their jobs.
const killingUsers = 3

// countUsers returns the number of users, each of whom has one live job at a time. Half of the processor time of these
// tests is the users'.
func countUsers() int {
	if testneeds.IsLongRun() {
		return 10
	}
	return 6
}

const (
	again   = 50 * time.Millisecond // delay before a submission is retried
	dwells  = 30 * time.Millisecond // how long a task holds its devices
	forEver = "1h"                  // duration of a task that is to be killed
)

// testUsers submit jobs, each the next one when the previous one has ended.
type testUsers struct {
	t      testing.TB
	c      *client.Client
	proof  *taskEvidence
	ctx    context.Context
	going  sync.WaitGroup
	enough chan struct{} // closed to stop further submissions

	mu    sync.Mutex
	ended map[string]api.JobView // the final views of ended jobs
	more  chan struct{}          // closed when ended grows
}

// startUsers starts users that submit through any scheduler of apis.
func startUsers(t testing.TB, p *taskEvidence, apis string) *testUsers {
	t.Helper()
	c, err := client.New(apis)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	all := &testUsers{t: t, c: c, proof: p, ctx: ctx, enough: make(chan struct{}), ended: map[string]api.JobView{}, more: make(chan struct{})}
	for n := range countUsers() {
		all.going.Go(func() { all.runUser(n) })
	}
	t.Cleanup(func() { cancel(); all.going.Wait(); c.Close() })
	return all
}

func (p *testUsers) runUser(n int) {
	for i := 0; ; i++ {
		select {
		case <-p.enough:
			return
		case <-p.ctx.Done():
			return
		default:
		}
		spec := p.proof.spec(fmt.Sprintf("job-%d-%d", n, i), 1+(n+i)%2, 1+i%3/2)
		if n < killingUsers {
			spec = p.proof.endlessSpec(spec)
		}
		view, err := p.runJob(spec, n < killingUsers)
		if p.ctx.Err() != nil {
			return
		}
		if err != nil {
			p.t.Errorf("%s: %v", spec.Name, err)
			return
		}
		p.recordResult(view)
		if view.State != expectedState(&view.Job) {
			p.t.Errorf("job %s ended as %s: %+v", spec.Name, view.State, view.Tasks)
			return
		}
	}
}

// runJob submits a job and waits until it has ended.
func (p *testUsers) runJob(spec job.Spec, kill bool) (view api.JobView, err error) {
	if err := p.submit(spec); err != nil {
		return view, fmt.Errorf("submit: %w", err)
	}
	if err := p.holdAndRelease(spec.Name); err != nil {
		return view, fmt.Errorf("hold: %w", err)
	}
	if kill {
		if err := p.killStarted(spec.Name); err != nil {
			return view, fmt.Errorf("kill: %w", err)
		}
	}
	if view, err = p.c.WaitForJob(p.ctx, spec.Name); err != nil {
		return view, fmt.Errorf("wait: %w", err)
	}
	return view, nil
}

// submit retries until the job is certainly accepted, and never submits it twice: after a
// lost answer it first looks for the job.
func (p *testUsers) submit(spec job.Spec) error {
	for {
		_, err := p.c.SubmitJob(p.ctx, spec)
		for err != nil && statusOf(err) != http.StatusNotFound {
			if statusOf(err) == http.StatusConflict {
				return nil // an earlier attempt was accepted
			}
			if !client.IsTemporary(err) {
				return err
			}
			if err := p.waitBetweenTries(); err != nil {
				return err
			}
			_, err = p.c.GetJob(p.ctx, spec.Name)
		}
		if err == nil {
			return nil
		}
	}
}

// holdAndRelease holds a job and releases it. An answered hold survives every crash until the release.
func (p *testUsers) holdAndRelease(name string) error {
	for _, held := range []bool{true, false} {
		change := func() error { return p.c.HoldJob(p.ctx, name, "crash") }
		if !held {
			change = func() error { return p.c.ReleaseJob(p.ctx, name) }
		}
		err := p.retryTemporary(change)
		if statusOf(err) == http.StatusConflict {
			return nil // it has ended
		}
		if err != nil {
			return err
		}
		view, err := p.awaitView(name, func(v *api.JobView) bool { return v.Terminal || (v.Hold != nil) == held })
		if err != nil || view.Terminal {
			return err
		}
	}
	return nil
}

// awaitView reads a job until it is as expected. A standby may answer that does not have the last change yet.
func (p *testUsers) awaitView(name string, expected func(*api.JobView) bool) (view api.JobView, err error) {
	for late := time.Now().Add(waitTimeout); ; {
		if err := p.retryTemporary(func() (err error) { view, err = p.c.GetJob(p.ctx, name); return err }); err != nil || expected(&view) {
			return view, err
		}
		if time.Now().After(late) {
			return view, fmt.Errorf("the change was lost: %+v", view)
		}
		if err := p.waitBetweenTries(); err != nil {
			return view, err
		}
	}
}

// retryTemporary calls f until it succeeds or fails for good.
func (p *testUsers) retryTemporary(f func() error) error {
	for {
		err := f()
		if err == nil || !client.IsTemporary(err) {
			return err
		}
		if err := p.waitBetweenTries(); err != nil {
			return err
		}
	}
}

func statusOf(err error) int {
	var problem *api.Problem
	if errors.As(err, &problem) {
		return problem.Status
	}
	return 0
}

func (p *testUsers) waitBetweenTries() error {
	select {
	case <-time.After(again):
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// killStarted kills a job once one of its tasks runs, or has ended unexpectedly.
func (p *testUsers) killStarted(name string) error {
	for ev, err := range p.c.FollowEvents(p.ctx, name) {
		if err != nil {
			return err
		}
		if ev.State == job.Running || !ev.State.IsLive() {
			break
		}
	}
	return p.retryTemporary(func() error { return p.c.KillJob(p.ctx, name) })
}

func (p *testUsers) recordResult(view api.JobView) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended[view.Spec.Name] = view
	close(p.more)
	p.more = make(chan struct{})
}

func (p *testUsers) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ended)
}

// awaitMore waits until that many more jobs have ended.
func (p *testUsers) awaitMore(jobs int) {
	p.t.Helper()
	late := time.After(waitTimeout)
	for want := p.count() + jobs; ; {
		p.mu.Lock()
		now, more := len(p.ended), p.more
		p.mu.Unlock()
		if now >= want {
			return
		}
		select {
		case <-more:
		case <-late:
			p.t.Fatalf("waited %s for the end of %d more jobs; %d came", waitTimeout, jobs, jobs-(want-now))
		}
	}
}

// finishAll waits until the last job of each user has ended, and returns all final views.
func (p *testUsers) finishAll() map[string]api.JobView {
	p.t.Helper()
	close(p.enough)
	gone := make(chan struct{})
	go func() { p.going.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(waitTimeout):
		p.t.Errorf("waited %s for the last jobs to end", waitTimeout)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

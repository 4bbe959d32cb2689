package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

// follower shows a job as it runs: each change of its tasks and what they
// write.
type follower struct {
	api    *client.Client
	job    string
	out    io.Writer                  // what tasks write to stdout
	err    io.Writer                  // and to stderr, and why they wait
	states io.Writer                  // where changes go
	copies map[string]*sync.WaitGroup // by task
	ended  map[string]bool            // tasks whose end was seen
	stop   context.CancelCauseFunc
	mu     sync.Mutex // one writer at a time
}

// outputError says that our own output takes no more.
type outputError struct{ err error }

func (e *outputError) Error() string { return fmt.Sprintf("write output: %v", e.err) }
func (e *outputError) Unwrap() error { return e.err }

// follow submits the job and returns it once it has ended and all of its
// output was shown. Its error is an *outputError where that could not be.
func (a *app) follow(ctx context.Context, c *client.Client, spec *job.Spec, states io.Writer) (api.JobView, error) {
	view, err := c.Submit(ctx, *spec)
	if err != nil {
		return view, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f := &follower{
		api: c, job: spec.Name, out: a.out, err: a.err, states: states, stop: stop,
		copies: map[string]*sync.WaitGroup{}, ended: map[string]bool{},
	}
	var waits sync.WaitGroup
	waits.Go(func() { f.explain(ctx) })
	view, err = f.events(ctx)
	cause := context.Cause(ctx)
	stop(nil)
	waits.Wait()
	switch {
	case cause == nil:
		return view, err
	case errors.Is(cause, context.Canceled):
		return view, fmt.Errorf("stopped following job %s", spec.Name)
	default:
		return view, cause
	}
}

// events follows the job until the end of each of its tasks was seen.
func (f *follower) events(ctx context.Context) (view api.JobView, err error) {
	for ev, err := range f.api.Follow(ctx, f.job) {
		if err != nil {
			return view, fmt.Errorf("follow job %s: %w: see mesos-gpu describe %s", f.job, err, f.job)
		}
		f.see(ctx, ev)
		if ev.State.Live() {
			continue
		}
		f.ended[ev.Task] = true
		if view, err = f.api.Job(ctx, f.job); err != nil {
			return view, err
		}
		if f.seenAll(view) {
			return view, nil
		}
	}
	return view, ctx.Err()
}

func (f *follower) seenAll(view api.JobView) bool {
	for i := range view.Tasks {
		if !f.ended[view.Tasks[i].ID] {
			return false
		}
	}
	return true
}

// see shows one change: a task's end after all that it wrote.
func (f *follower) see(ctx context.Context, ev api.Event) {
	if ev.State == job.Running || ev.State == job.Finished || ev.State == job.Failed {
		f.copyOnce(ctx, ev.Task)
	}
	if copies := f.copies[ev.Task]; copies != nil && !ev.State.Live() {
		copies.Wait()
	}
	line := fmt.Sprintf("%s %s", ev.Task, ev.State)
	if ev.Message != "" {
		line += ": " + ev.Message
	}
	f.write(f.states, []byte(printable(line)+"\n"))
}

// copyOnce starts to show a task's output.
func (f *follower) copyOnce(ctx context.Context, task string) {
	if f.copies[task] != nil {
		return
	}
	copies := &sync.WaitGroup{}
	f.copies[task] = copies
	copies.Go(func() { f.copy(ctx, task, "stdout", f.out) })
	copies.Go(func() { f.copy(ctx, task, "stderr", f.err) })
}

func (f *follower) copy(ctx context.Context, task, stream string, to io.Writer) {
	body, err := f.api.Log(ctx, task, client.LogOptions{
		Stream: stream, Follow: true, Missed: func() { f.write(f.err, []byte(missedOutput+"\n")) },
	})
	if err == nil {
		_, err = io.Copy(writerFunc(func(p []byte) (int, error) { return f.write(to, p) }), body)
		body.Close()
	}
	// A task that failed before it ran has no output; its message says why.
	var problem *api.Problem
	if err == nil || ctx.Err() != nil || errors.As(err, &problem) && problem.Status == 404 {
		return
	}
	f.stop(fmt.Errorf("read %s of task %s: %w", stream, task, err))
}

// explainEvery is how often a waiting job is asked why.
const explainEvery = 2 * time.Second

// explain says why tasks wait, once they have for a while, and again when the
// reason changes.
func (f *follower) explain(ctx context.Context) {
	tick := time.NewTicker(explainEvery)
	defer tick.Stop()
	for said := ""; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// What goes wrong here, following the events tells.
		if view, err := f.api.Job(ctx, f.job); err == nil && view.Waits != "" && view.Waits != said {
			said = view.Waits
			f.write(f.err, []byte("waiting: "+said+"\n"))
		}
	}
}

// write passes on what there is. Once a write has failed, following ends.
func (f *follower) write(to io.Writer, text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := to.Write(text)
	if err != nil {
		err = &outputError{err}
		f.stop(err)
	}
	return n, err
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

// follower shows a job as it runs: each change of its tasks and what they
// write.
type follower struct {
	api    *client.Client
	out    io.Writer                  // what tasks write to stdout
	err    io.Writer                  // and to stderr
	states io.Writer                  // where changes go
	copies map[string]*sync.WaitGroup // by task
	mu     sync.Mutex                 // one writer at a time
	errs   []error
}

// follow submits the job and returns it once it has ended and all of its
// output was shown.
func (a *app) follow(ctx context.Context, c *client.Client, spec *job.Spec, states io.Writer) (api.JobView, error) {
	view, err := c.Submit(ctx, *spec)
	if err != nil {
		return view, err
	}
	f := &follower{api: c, out: a.out, err: a.err, states: states, copies: map[string]*sync.WaitGroup{}}
	for ev, err := range c.Events(ctx, spec.Name) {
		if err != nil {
			return view, fmt.Errorf("follow job %s: %w; it goes on: mesos-gpu describe %s", spec.Name, err, spec.Name)
		}
		f.see(ctx, ev)
		if !ev.State.Live() || ev.State == job.Waiting {
			if view, err = c.Job(ctx, spec.Name); err != nil {
				return view, err
			}
			f.waits(view)
		}
		if view.Terminal {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return view, fmt.Errorf("stopped following job %s; it goes on: mesos-gpu kill %s ends it", spec.Name, spec.Name)
	}
	return view, errors.Join(f.errs...)
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
	f.write(f.states, line+"\n")
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

// waits says why tasks wait, once the scheduler knows.
func (f *follower) waits(view api.JobView) {
	if view.Waits != "" {
		f.write(f.states, "waiting: "+view.Waits+"\n")
	}
}

func (f *follower) copy(ctx context.Context, task, stream string, to io.Writer) {
	body, err := f.api.Log(ctx, task, client.LogOptions{Stream: stream, Follow: true})
	if err == nil {
		_, err = io.Copy(writerFunc(func(p []byte) (int, error) {
			f.write(to, string(p))
			return len(p), nil
		}), body)
		body.Close()
	}
	// A task that failed before it ran has no output; its message says why.
	var problem *api.Problem
	if err == nil || ctx.Err() != nil || errors.As(err, &problem) && problem.Status == 404 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs = append(f.errs, fmt.Errorf("read %s of task %s: %w", stream, task, err))
}

func (f *follower) write(to io.Writer, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = io.WriteString(to, text) // who closed our output wants no more of it
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

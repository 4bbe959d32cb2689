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
	api     *client.Client
	job     string
	outputs []output
	last    int                      // so many of the lines that are there, 0 is all
	begun   []string                 // tasks that have run, though their states do not say so
	labels  labels                   // tell the tasks' output apart
	notes   *sink                    // why tasks wait, and what is missing
	states  *sink                    // where changes go
	copies  map[string]chan struct{} // by task; closed once all of its output was shown
	ended   map[string]bool          // tasks whose end was seen
	stop    context.CancelCauseFunc
}

// output is what tasks write to one of their streams, and where it goes.
type output struct {
	stream string
	to     *sink
}

// sink takes what is written to it one by one. That nobody reads one of them
// keeps nothing from the others.
type sink struct {
	mu sync.Mutex
	to io.Writer
}

// outputError says that our own output takes no more.
type outputError struct{ err error }

func (e *outputError) Error() string { return fmt.Sprintf("write output: %v", e.err) }
func (e *outputError) Unwrap() error { return e.err }

// follower shows both streams of all tasks, and no changes.
func (a *app) follower(c *client.Client, name string) *follower {
	out, errs := &sink{to: a.out}, &sink{to: a.err}
	return &follower{
		api: c, job: name, outputs: []output{{"stdout", out}, {"stderr", errs}}, notes: errs, states: &sink{to: io.Discard},
		copies: map[string]chan struct{}{}, ended: map[string]bool{},
	}
}

// run returns the job once it has ended and all of its output was shown. Its
// error is an *outputError where that could not be.
func (f *follower) run(ctx context.Context) (api.JobView, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f.stop = stop
	var waits sync.WaitGroup
	waits.Go(func() { f.explain(ctx) })
	for _, task := range f.begun {
		f.copyOnce(ctx, task)
	}
	view, err := f.events(ctx)
	cause := context.Cause(ctx)
	stop(nil)
	waits.Wait()
	switch {
	case cause == nil:
		return view, err
	case cause == context.Canceled: // and no error that only has to do with it
		return view, fmt.Errorf("stopped following job %s", f.job)
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
	if copied := f.copies[ev.Task]; copied != nil && !ev.State.Live() {
		select {
		case <-copied:
		case <-ctx.Done(): // nobody takes our output, or waits for it any more
		}
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
	copied := make(chan struct{})
	f.copies[task] = copied
	var copies sync.WaitGroup
	for _, o := range f.outputs {
		copies.Go(func() { f.copy(ctx, task, o) })
	}
	go func() {
		copies.Wait()
		close(copied)
	}()
}

func (f *follower) copy(ctx context.Context, task string, o output) {
	body, err := f.api.Log(ctx, task, client.LogOptions{
		Stream: o.stream, Last: f.last, Follow: true, Missed: func() { f.write(f.notes, []byte(missedOutput+"\n")) },
	})
	if err == nil {
		to := f.labels.of(indexOf(f.job, task), writerFunc(func(p []byte) (int, error) { return f.write(o.to, p) }))
		_, err = io.Copy(to, body)
		err = errors.Join(err, to.end())
		body.Close()
	}
	// A task that failed before it ran has no output; its message says why.
	if err == nil || ctx.Err() != nil || missing(err) {
		return
	}
	f.stop(fmt.Errorf("read %s of task %s: %w", o.stream, task, err))
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
			f.write(f.notes, []byte("waiting for "+said+"\n"))
		}
	}
}

// write passes on what there is. Once a write has failed, following ends.
func (f *follower) write(to *sink, text []byte) (int, error) {
	to.mu.Lock()
	defer to.mu.Unlock()
	n, err := to.to.Write(text)
	if err != nil {
		err = &outputError{err}
		f.stop(err)
	}
	return n, err
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

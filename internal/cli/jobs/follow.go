package jobs

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// jobFollower follows a running job: it prints the state changes of its tasks and
// their output.
type jobFollower struct {
	api          *client.Client
	job          string
	Outputs      []streamOutput
	onlyStream   string                   // the only stream to print, or "" for both
	tailLines    int                      // number of existing lines to print; 0 is all
	since        time.Time                // lines from before are not printed
	startedTasks []string                 // tasks that have run although their state does not show it
	skippedTasks map[string]bool          // tasks whose output is not printed
	labels       lineLabels               // prefixes that identify each task's output
	notes        *syncWriter              // receives wait reasons and notices about output
	States       *syncWriter              // receives state changes
	copies       map[string]chan struct{} // by task; closed when all of its output is printed
	ended        map[string]bool          // tasks whose final state was received
	cancel       context.CancelCauseFunc
	running      chan struct{} // closed when the first task runs; nil if no caller needs it
}

// streamOutput is one output stream of the tasks and its destination.
type streamOutput struct {
	stream string
	To     *syncWriter
	screen term.TerminalScreen // whether labels have colors
}

// bothStreams returns both output streams, to standard output and standard error.
func bothStreams(a *cli.App) []streamOutput {
	return []streamOutput{
		{"stdout", &syncWriter{to: a.Stdout}, term.TerminalScreen{UseColor: a.UsesColor(a.Stdout)}},
		{"stderr", &syncWriter{to: a.Stderr}, term.TerminalScreen{UseColor: a.UsesColor(a.Stderr)}},
	}
}

// syncWriter serializes writes to one destination. Each destination has a lock of its
// own, so that a blocked one does not block the others.
type syncWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *syncWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// writeError is a failure to write to our own output.
type writeError struct{ err error }

func (e *writeError) Error() string { return fmt.Sprintf("write output: %v", e.err) }
func (e *writeError) Unwrap() error { return e.err }

// NewFollower returns a follower that prints both output streams of all tasks and
// discards state changes.
func NewFollower(a *cli.App, c *client.Client, name string) *jobFollower {
	outputs := bothStreams(a)
	return &jobFollower{
		api: c, job: name, Outputs: outputs, notes: outputs[1].To, States: &syncWriter{to: io.Discard},
		copies: map[string]chan struct{}{}, ended: map[string]bool{},
	}
}

// notifyRunning returns a channel that is closed when a task runs. It is called before
// FollowToEnd.
func (f *jobFollower) notifyRunning() <-chan struct{} {
	running := make(chan struct{})
	f.running = running
	return running
}

// FollowToEnd returns the job after it has ended and all of its output is printed. It
// returns a *writeError if the output cannot be written.
func (f *jobFollower) FollowToEnd(ctx context.Context) (api.JobView, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f.cancel = stop
	defer printConnectionLosses(f.api, f.notes)()
	var waits sync.WaitGroup
	waits.Go(func() { f.explainWaiting(ctx) })
	for _, task := range f.startedTasks {
		f.startCopy(ctx, task)
	}
	view, err := f.followEvents(ctx)
	cause := context.Cause(ctx)
	stop(nil)
	waits.Wait()
	switch {
	case cause == nil:
		return view, err
	case cause == context.Canceled: // replaces errors that result from the cancellation
		return view, fmt.Errorf("stopped following job %s", f.job)
	default:
		return view, cause
	}
}

// followEvents follows the job until it has received the end of every task.
func (f *jobFollower) followEvents(ctx context.Context) (view api.JobView, err error) {
	for ev, err := range f.api.FollowEvents(ctx, f.job) {
		if err != nil {
			return view, fmt.Errorf("follow job %s: %w: see mesos-gpu describe %s", f.job, err, f.job)
		}
		f.showEvent(ctx, ev)
		if ev.State.IsLive() {
			continue
		}
		f.ended[ev.Task] = true
		if err := f.api.RetryTemporary(ctx, func() error { view, err = f.api.GetJob(ctx, f.job); return err }); err != nil {
			return view, err
		}
		if f.sawAllEnd(view) {
			return view, nil
		}
	}
	return view, ctx.Err()
}

func (f *jobFollower) sawAllEnd(view api.JobView) bool {
	for i := range view.Tasks {
		if !f.ended[view.Tasks[i].ID] {
			return false
		}
	}
	return true
}

// showEvent prints one state change. It prints the end of a task after all of the
// task's output.
func (f *jobFollower) showEvent(ctx context.Context, ev api.TaskEvent) {
	if ev.State == job.Running || ev.State == job.Finished || ev.State == job.Failed {
		f.startCopy(ctx, ev.Task)
	}
	if ev.State == job.Running && f.running != nil {
		close(f.running)
		f.running = nil
	}
	if copied := f.copies[ev.Task]; copied != nil && !ev.State.IsLive() {
		select {
		case <-copied:
		case <-ctx.Done(): // the output failed, or following was canceled
		}
	}
	line := fmt.Sprintf("%s %s", ev.Task, ev.State)
	if ev.Message != "" {
		line += ": " + ev.Message
	}
	f.writeOutput(f.States, []byte(term.EscapeControls(line)+"\n"))
}

// startCopy starts to copy a task's output, once for each task.
func (f *jobFollower) startCopy(ctx context.Context, task string) {
	if f.copies[task] != nil || f.skippedTasks[task] {
		return
	}
	copied := make(chan struct{})
	f.copies[task] = copied
	go func() {
		defer close(copied)
		f.copyTask(ctx, task)
	}()
}

// copyTask copies the output of a task in the order in which it was written.
func (f *jobFollower) copyTask(ctx context.Context, task string) {
	var outputs []streamOutput
	for _, o := range f.Outputs {
		to := o.To
		o.To = &syncWriter{to: writerFunc(func(p []byte) (int, error) { return f.writeOutput(to, p) })}
		outputs = append(outputs, o)
	}
	options := client.OutputOptions{Stream: f.onlyStream, Since: f.since, TailLines: f.tailLines, Follow: true}
	_, err := copyTaskOutput(ctx, f.api, task, options, f.labels, outputs, f.printNotice)
	// A task that failed before it started has no output; its message has the reason.
	if err != nil && ctx.Err() == nil && !isNotFound(err) {
		f.cancel(err)
	}
}

func (f *jobFollower) printNotice(notice string) { f.writeOutput(f.notes, []byte(notice+"\n")) }

// explainInterval is the interval between two requests for the wait reason.
const explainInterval = 2 * time.Second

// explainWaiting prints why the job's tasks wait, first after explainInterval and
// then whenever the reason changes.
func (f *jobFollower) explainWaiting(ctx context.Context) {
	tick := time.NewTicker(explainInterval)
	defer tick.Stop()
	for said := ""; ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// followEvents reports errors; they are ignored here.
		if view, err := f.api.GetJob(ctx, f.job); err == nil && view.WaitReason != "" && view.WaitReason != said {
			said = view.WaitReason
			f.writeOutput(f.notes, []byte("waiting for "+said+"\n"))
		}
	}
}

// writeOutput writes text to a destination. A failed write cancels following.
func (f *jobFollower) writeOutput(to *syncWriter, text []byte) (int, error) {
	n, err := to.Write(text)
	if err != nil {
		err = &writeError{err}
		f.cancel(err)
	}
	return n, err
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

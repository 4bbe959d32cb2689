package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

func (a *jobCommands) attachCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attach JOB", Short: "Attach to a running job with stdin or tty", Args: cli.RequireArgs("JOB"),
		Long: "Attach to a running job with stdin or tty. With tty its command runs on this terminal, and attach exits with its code;\n" +
			"with stdin alone, standard input goes to the command. The job ends if the connection is lost. logs -f shows the output of other jobs.",
		Example:           "  mesos-gpu attach train",
		RunE:              func(c *cobra.Command, args []string) error { return a.attachToJob(c.Context(), args[0]) },
		ValidArgsFunction: a.completeRunning,
	}
}

func (a *jobCommands) attachToJob(ctx context.Context, name string) error {
	c, err := a.NewClient()
	if err != nil {
		return err
	}
	ctx, stop := notifyInterrupt(ctx)
	defer stop()
	view, err := c.GetJob(ctx, name)
	if err != nil {
		return err
	}
	code, err := 0, error(nil)
	if view.Spec.TTY {
		if a.terminalInput() == nil {
			return &cli.UsageError{Err: fmt.Errorf("job %s has a terminal, and standard input is none", name)}
		}
		code, err = a.attachTerminal(ctx, c, name)
	} else {
		code, err = c.Attach(ctx, name, 0, api.WindowSize{}, api.Terminal{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr})
	}
	if err != nil {
		return err
	}
	if code != 0 {
		return &cli.ExitStatus{Code: code}
	}
	return nil
}

// attachTerminal runs the command of a job with TTY on this terminal, which must exist, and
// restores the terminal's mode afterwards.
func (a *jobCommands) attachTerminal(ctx context.Context, c *client.Client, name string) (int, error) {
	keys := a.terminalInput()
	var size api.WindowSize
	size.Rows, size.Cols = keys.windowSize()
	resizes, stop := keys.watchResizes(ctx)
	defer stop()
	restore, err := keys.makeRaw()
	if err != nil {
		return 0, err
	}
	defer restore()
	return c.Attach(ctx, name, 0, size, api.Terminal{Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr, Resize: resizes})
}

// checkInteractive returns a UsageError for a job that takes a client and cannot have this
// one.
func (a *jobCommands) checkInteractive(spec *job.Spec, detach, keep bool) error {
	switch {
	case !spec.TakesClient():
		return nil
	case detach || keep:
		return &cli.UsageError{
			Err: errors.New("a job with --stdin or --tty ends with its client: leave out --detach and --detach-on-interrupt, " +
				"or run a job without them and open mesos-gpu shell in it"),
		}
	case spec.TTY && a.terminalInput() == nil:
		return &cli.UsageError{Err: errors.New("-t needs a terminal, and standard input is not one: leave -t out")}
	}
	return nil
}

// passPipedInput gives a job the standard input of this program if that is a pipe, a socket
// or a file. Jobs with an image get it only on request: it replaces the image's entrypoint,
// and needs a shell in the image. So do jobs that cannot have one client.
func (a *jobCommands) passPipedInput(spec *job.Spec) {
	f, ok := a.Stdin.(*os.File)
	if !ok || spec.TakesClient() || spec.Image != "" {
		return
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeType&^(os.ModeNamedPipe|os.ModeSocket) != 0 {
		return
	}
	piped := *spec
	piped.Stdin = true
	if piped.Validate() == nil {
		*spec = piped
	}
}

// endTimeout limits the wait for the end of a job whose command has ended.
const endTimeout = 10 * time.Second

// runOnTerminal submits a job with TTY, runs its command on this terminal, and returns its
// exit code as an ExitStatus. An interrupt before the start kills the job; later Ctrl-C
// reaches the command.
func (a *jobCommands) runOnTerminal(ctx context.Context, spec *job.Spec) error {
	c, err := a.NewClient()
	if err != nil {
		return err
	}
	ctx, stop := notifyInterrupt(ctx)
	defer stop()
	if _, err = SubmitWithWorkdir(ctx, a.App, spec, c.UploadWorkdir, c.SubmitJob); err == nil {
		err = a.awaitRunning(ctx, c, spec.Name)
	}
	code := 0
	if err == nil {
		code, err = a.attachTerminal(ctx, c, spec.Name)
	}
	after := context.WithoutCancel(ctx)
	if interrupted := ctx.Err() != nil; err != nil {
		if errors.As(err, new(*cli.ExitStatus)) {
			return err
		}
		if err = errors.Join(err, killWithin(after, c, spec.Name)); interrupted {
			return fmt.Errorf("interrupted; job %s is being killed", spec.Name)
		}
		return err
	}
	after, cancel := context.WithTimeout(after, endTimeout)
	defer cancel()
	for ev, err := range c.FollowEvents(after, spec.Name) {
		if err != nil || !ev.State.IsLive() {
			break
		}
	}
	if code != 0 {
		return &cli.ExitStatus{Code: code}
	}
	return nil
}

// awaitRunning waits until the only task of a job runs, and prints meanwhile why it waits.
// For a job that ends before, it returns the ExitStatus, after it has printed why.
func (a *jobCommands) awaitRunning(ctx context.Context, c *client.Client, name string) error {
	f := NewFollower(a.App, c, name)
	following, stop := context.WithCancelCause(ctx)
	f.cancel = stop
	explained := make(chan struct{})
	go func() {
		defer close(explained)
		f.explainWaiting(following)
	}()
	defer func() {
		stop(nil)
		<-explained
	}()
	for ev, err := range c.FollowEvents(following, name) {
		switch {
		case err != nil:
			return fmt.Errorf("follow job %s: %w", name, err)
		case ev.State == job.Running:
			return nil
		case !ev.State.IsLive():
			view, err := c.GetJob(ctx, name)
			if err != nil {
				return err
			}
			return a.reportOutcome(&view)
		}
	}
	return context.Cause(following)
}

// inputFeed sends standard input to a job while it is followed.
type inputFeed struct {
	done chan struct{} // closed when err is set
	err  error
}

// startInputFeed attaches to the task of a job as soon as running is closed. A scheduler
// that forbids it never gives the task its input, so leave is called with the error then.
func (a *jobCommands) startInputFeed(ctx context.Context, c *client.Client, name string, running <-chan struct{}, leave context.CancelCauseFunc) *inputFeed {
	f := &inputFeed{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		select {
		case <-running:
		case <-ctx.Done():
			return
		}
		_, f.err = c.Attach(ctx, name, 0, api.WindowSize{}, api.Terminal{Stdin: a.Stdin, Stdout: io.Discard, Stderr: io.Discard})
		if p := (*api.Problem)(nil); errors.As(f.err, &p) && p.Status == http.StatusForbidden {
			leave(errors.Join(fmt.Errorf("pass standard input: %w", f.err), killWithin(context.WithoutCancel(ctx), c, name)))
		}
	}()
	return f
}

// explainLoss returns why the input was lost, or "" if the job did not end for that reason.
func (f *inputFeed) explainLoss(view *api.JobView) string {
	if f == nil || view.ExitCode == nil || *view.ExitCode != job.ExitClientLost {
		return ""
	}
	select {
	case <-f.done:
		if f.err != nil {
			return fmt.Sprintf("mesos-gpu: standard input: %v\n", f.err)
		}
	default:
	}
	return ""
}

package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

func (a *jobCommands) runCommand() *cobra.Command {
	var flags *jobFlags
	var detach, keep, verbose bool
	c := &cobra.Command{
		Use: "run [flags] -- COMMAND [ARG...]", Short: "Run a job, stream its output, exit with its code",
		Long: "Run a job, stream its output and exit with its code. Changes of state go to standard error with --verbose.\n" +
			"An interrupt (Ctrl-C, SIGTERM, SIGHUP) ends the job with its kill grace, and run with it; a second one ends run at once.\n" +
			"With --detach-on-interrupt, or by SIGQUIT (Ctrl-\\), the job continues, and run exits with 0. With --detach run only prints the job's name.\n" +
			"Standard input goes to the command if it is a pipe or a file and the job has no image, or with -i. With -it the command runs on\n" +
			"this terminal. Such a job ends with run, however that ends, so -it has no key to detach.",
		Example: "  mesos-gpu run --gpus 2 --gpu-type A100 --image pytorch/pytorch -- python train.py\n" +
			"  mesos-gpu run -it --gpus 1 -- bash\n  mesos-gpu run -- tar x < src.tar\n" +
			"  mesos-gpu run --detach --restart always --name web --gpu-memory 4GiB -- serve",
		RunE: func(c *cobra.Command, command []string) error {
			for _, name := range []string{"tasks", "cpus", "name", "kill-grace"} {
				if f := c.Flags().Lookup(name); f.Changed && slices.Contains([]string{"0", "0s", ""}, f.Value.String()) {
					return &cli.UsageError{Err: fmt.Errorf("--%s: %q is nothing: leave the flag out for the default", name, f.Value)}
				}
			}
			if err := flags.readEnvironment(a.Getenv); err != nil {
				return err
			}
			if len(command) > 0 && strings.HasPrefix(command[0], "--") && !c.Flags().Changed("image") { // with an image they are arguments of its program
				return &cli.UsageError{Err: fmt.Errorf("%s is no program: flags of run go before --", command[0])}
			}
			defaults, err := a.JobDefaults()
			if err != nil {
				return err
			}
			spec, err := flags.JobSpec(command, defaults)
			if err != nil {
				return err
			}
			if !detach && !keep && !c.Flags().Changed("stdin") {
				a.passPipedInput(spec)
			}
			if err := a.checkInteractive(spec, detach, keep); err != nil {
				return err
			}
			if detach {
				return a.runDetached(c.Context(), spec)
			}
			if spec.Service != nil {
				return &cli.UsageError{
					Err: errors.New("--restart always: the job does not end, and there is no exit status to wait for: give --detach too, and see mesos-gpu logs --follow"),
				}
			}
			if spec.TTY {
				return a.runOnTerminal(c.Context(), spec)
			}
			return a.runAttached(c.Context(), spec, verbose, keep)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	flags = addJobFlags(f)
	f.BoolVar(&verbose, "verbose", false, "print changes of state to standard error")
	f.BoolVarP(&detach, "detach", "d", false, "submit the job, print its name and exit")
	f.BoolVar(&keep, "detach-on-interrupt", false, "on Ctrl-C, exit and leave the job running")
	groupFlags(c)
	return c
}

// runDetached submits the job and prints its name, which may be generated.
func (a *jobCommands) runDetached(ctx context.Context, spec *job.Spec) error {
	api, err := a.NewClient()
	if err != nil {
		return err
	}
	view, err := SubmitWithWorkdir(ctx, a.App, spec, api.UploadWorkdir, api.SubmitJob)
	if err != nil {
		return err
	}
	a.printWarnings(spec.Name, view.Warnings)
	_, err = fmt.Fprintln(a.Stdout, spec.Name)
	return err
}

// runAttached submits the job and follows it: it prints the output of its tasks, wait
// reasons, and why a task never started. An interrupt kills the job unless keep is set.
func (a *jobCommands) runAttached(ctx context.Context, spec *job.Spec, verbose, keep bool) error {
	api, err := a.NewClient()
	if err != nil {
		return err
	}
	ctx, stop := notifyInterrupt(ctx)
	defer stop()
	view, err := SubmitWithWorkdir(ctx, a.App, spec, api.UploadWorkdir, api.SubmitJob)
	if err != nil {
		if ctx.Err() == nil || keep {
			return err
		}
		// The scheduler may have accepted the job.
		if err := killWithin(context.WithoutCancel(ctx), api, spec.Name); err != nil {
			return fmt.Errorf("interrupted; %w", err)
		}
		return fmt.Errorf("interrupted; job %s is being killed", spec.Name)
	}
	a.printWarnings(spec.Name, view.Warnings)
	f := NewFollower(a.App, api, spec.Name)
	if term.IsTerminal(a.Stdout) { // programs get the tasks' lines as they are
		f.labels = lineLabels{job: spec.Name, tasks: spec.Tasks}
	}
	if verbose {
		f.States = f.notes
	}
	quit, stopQuit := notifyQuit()
	defer stopQuit()
	following, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	var feed *inputFeed
	if spec.Stdin {
		quit = nil // the job cannot continue without its client
		feed = a.startInputFeed(following, api, spec.Name, f.notifyRunning(), leave)
	}
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-ctx.Done():
			stopQuit() // from here on SIGQUIT ends this program as usual
			a.handleInterrupt(following, leave, api, spec.Name, keep)
		case <-quit:
			leave(leftRunning{spec.Name})
		case <-following.Done():
		}
	})
	view, err = f.FollowToEnd(following)
	leave(nil)
	watching.Wait()
	if errors.As(err, new(*writeError)) && !keep {
		err = errors.Join(err, killWithin(context.WithoutCancel(ctx), api, spec.Name))
	}
	if errors.As(err, new(leftRunning)) {
		fmt.Fprintf(a.Stderr, "mesos-gpu: %s\n", err)
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprint(a.Stderr, feed.explainLoss(&view))
	if verbose || term.IsTerminal(a.Stderr) {
		a.reportEfficiency(context.WithoutCancel(ctx), api, &view)
	}
	return a.reportOutcome(&view)
}

// efficiencyWait is how long run waits after the end of a job for what the agents have measured.
const efficiencyWait = 2 * time.Second

// reportEfficiency prints one line about the GPU time of an ended job. A scheduler of an earlier version has no accounting.
func (a *jobCommands) reportEfficiency(ctx context.Context, c *client.Client, view *api.JobView) {
	if !usesGPUs(view) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	one, err := c.AccountJob(ctx, view.RunID().String(), efficiencyWait)
	if err != nil {
		return
	}
	if text := cli.FormatEfficiency(&one); text != "" {
		fmt.Fprintf(a.Stderr, "mesos-gpu: job %s: %s\n", view.Spec.Name, text)
	}
}

// reportOutcome returns the job's exit code as an ExitStatus, and nil on success. It
// prints why tasks failed.
func (a *jobCommands) reportOutcome(view *api.JobView) error {
	if view.State == job.Finished {
		return nil
	}
	reportFailures(a.Stderr, view)
	return &cli.ExitStatus{Code: *view.ExitCode}
}

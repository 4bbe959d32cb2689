package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

const (
	// notebookCommand starts Jupyter, which reads its token from notebookToken. The
	// connections come from the agent, or from outside of a docker network.
	notebookCommand = "exec jupyter lab --ip=${NOTEBOOK_IP:-127.0.0.1} --port=$PORT0 --ServerApp.port_retries=0 --no-browser --allow-root"
	notebookToken   = "JUPYTER_TOKEN"
	notebookAddress = "NOTEBOOK_IP"
	// notebookPort is the name of the port of a notebook job.
	notebookPort = "notebook"
	// defaultIdleTimeout is the idle timeout of a notebook job.
	defaultIdleTimeout = 2 * time.Hour
)

func (a *jobCommands) notebookCommand() *cobra.Command {
	var flags *jobFlags
	var detach bool
	line, local := "", 0
	c := &cobra.Command{
		Use: "notebook [flags] [JOB]", Short: "Start a Jupyter notebook, or connect to one, and print its link",
		Long: "Start a job with a Jupyter notebook, or another web server with --command, and print a link to it on this machine.\n" +
			"The connection goes through the scheduler and lasts until an interrupt (Ctrl-C); the job continues, and notebook JOB connects to it\n" +
			"again. The job ends when no client was connected for --idle. The server listens on $PORT0 and may ask for the\n" +
			"token $" + notebookToken + ", which is in the link.",
		Example: "  mesos-gpu notebook --gpus 1 --image quay.io/jupyter/pytorch-notebook\n" +
			"  mesos-gpu notebook --name lab --gpus 1 --idle 30m\n  mesos-gpu notebook lab\n" +
			"  mesos-gpu notebook --gpus 0 --command 'tensorboard --logdir /runs --bind_all --port $PORT0'",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return &cli.UsageError{Err: fmt.Errorf("%s takes one job: %q", c.CommandPath(), args)}
			}
			if local < 0 || local > 65535 {
				return &cli.UsageError{Err: fmt.Errorf("--local-port: %d is not a port", local)}
			}
			listen := net.JoinHostPort("127.0.0.1", strconv.Itoa(local))
			if len(args) == 1 {
				return a.connectNotebook(c.Context(), args[0], listen)
			}
			if err := flags.readEnvironment(a.Getenv); err != nil {
				return err
			}
			defaults, err := a.JobDefaults()
			if err != nil {
				return err
			}
			spec, err := flags.JobSpec([]string{"/bin/sh", "-c", line}, defaults)
			if err == nil {
				err = addNotebookKeys(spec)
			}
			if err != nil {
				return err
			}
			if detach {
				return a.runDetached(c.Context(), spec)
			}
			return a.startNotebook(c.Context(), spec, listen)
		},
		ValidArgsFunction: a.completeRunning,
	}
	f := c.Flags()
	flags = addJobFlags(f)
	f.StringVar(&line, "command", notebookCommand, "shell command of the server")
	f.IntVar(&local, "local-port", 0, "port of this machine (default a free one)")
	f.BoolVarP(&detach, "detach", "d", false, "submit the job, print its name and exit")
	groupFlags(c)
	return c
}

// addNotebookKeys adds the port, the token and the idle timeout that a notebook job needs.
func addNotebookKeys(spec *job.Spec) error {
	if spec.Tasks > 1 || spec.TakesClient() || spec.Service != nil {
		return &cli.UsageError{Err: errors.New("a notebook is one task, without --stdin, --tty and --restart always")}
	}
	if len(spec.Ports) == 0 {
		spec.Ports = []job.Port{{Name: notebookPort}}
	}
	if spec.IdleTimeout == 0 {
		spec.IdleTimeout = defaultIdleTimeout
	}
	if spec.Env == nil {
		spec.Env = map[string]string{}
	}
	if spec.Env[notebookToken] == "" {
		spec.Env[notebookToken] = rand.Text()
	}
	if err := spec.Complete(); err != nil {
		return &cli.UsageError{Err: err}
	}
	if spec.Containerizer == job.Docker && !spec.Network.IsHost() {
		spec.Env[notebookAddress] = "0.0.0.0"
	}
	return nil
}

// startNotebook submits a notebook job and connects to it. An interrupt before it runs kills
// the job.
func (a *jobCommands) startNotebook(ctx context.Context, spec *job.Spec, listen string) error {
	c, err := a.NewClient()
	if err != nil {
		return err
	}
	ctx, stop := notifyInterrupt(ctx)
	defer stop()
	if _, err = SubmitWithWorkdir(ctx, a.App, spec, c.UploadWorkdir, c.SubmitJob); err == nil {
		err = a.awaitRunning(ctx, c, spec.Name)
	}
	if ctx.Err() != nil {
		if err := killWithin(context.WithoutCancel(ctx), c, spec.Name); err != nil {
			return fmt.Errorf("interrupted; %w", err)
		}
		return fmt.Errorf("interrupted; job %s is being killed", spec.Name)
	}
	if err != nil {
		return err
	}
	return a.serveNotebook(ctx, c, spec.Name, listen)
}

// connectNotebook connects to a notebook job that runs.
func (a *jobCommands) connectNotebook(ctx context.Context, name, listen string) error {
	c, err := a.NewClient()
	if err != nil {
		return err
	}
	ctx, stop := notifyInterrupt(ctx)
	defer stop()
	return a.serveNotebook(ctx, c, name, listen)
}

// serveNotebook prints the link as soon as the server accepts connections, and forwards
// connections until ctx ends.
func (a *jobCommands) serveNotebook(ctx context.Context, c *client.Client, name, listen string) error {
	task, err := resolveTask(ctx, c, name)
	if err != nil {
		return err
	}
	view, err := c.GetJob(ctx, task.Job)
	if err != nil {
		return err
	}
	f, err := newPortForwarder(ctx, a, c, task, listen, "")
	if err != nil {
		return a.explainNotebookEnd(ctx, c, task.Job, err)
	}
	defer f.listener.Close()
	if err := f.awaitServer(ctx); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(a.Stderr, "mesos-gpu: job %s continues: see mesos-gpu logs %s\n", name, name)
			return nil
		}
		return a.explainNotebookEnd(ctx, c, task.Job, err)
	}
	link := url.URL{Scheme: "http", Host: f.listener.Addr().String(), Path: "/"}
	if token := view.Spec.Env[notebookToken]; token != "" {
		link.RawQuery = url.Values{"token": {token}}.Encode()
	}
	fmt.Fprintf(a.Stdout, "%s\n", &link)
	fmt.Fprintf(a.Stderr,
		"mesos-gpu: open the link in a browser; Ctrl-C disconnects, mesos-gpu notebook %s connects again, mesos-gpu kill %s ends the job\n",
		name, name)
	if err := f.serve(ctx); err != nil {
		return a.explainNotebookEnd(ctx, c, task.Job, err)
	}
	return nil
}

// endReportTime is how much later than its agent the scheduler may know that a task has ended.
const endReportTime = 3 * time.Second

// explainNotebookEnd prints why a notebook job failed, with its last lines, and returns its exit status. It returns err if
// the job has not failed. If the API returned err, it waits for endReportTime for the end of the job.
func (a *jobCommands) explainNotebookEnd(ctx context.Context, c *client.Client, name string, err error) error {
	if errors.As(err, new(*api.Problem)) {
		limited, cancel := context.WithTimeout(ctx, endReportTime)
		_, _ = c.WaitForJob(limited, name) // the job is read again
		cancel()
	}
	view, viewErr := c.GetJob(ctx, name)
	if viewErr != nil || !view.Terminal || view.State != job.Failed {
		return err
	}
	failure := a.reportOutcome(&view)
	fmt.Fprint(a.Stderr, describeErrorOutput(ctx, c, &view))
	if view.Spec.Image == "" && view.ExitCode != nil && *view.ExitCode == exitNotFound {
		fmt.Fprintln(a.Stderr, "mesos-gpu: the agent has no such program: "+
			"give an image that has it, such as --image quay.io/jupyter/base-notebook, or another --command")
	}
	return failure
}

// serverInterval is the interval of attempts to connect to a server that starts.
const serverInterval = 500 * time.Millisecond

// awaitServer waits until the task accepts a connection. It returns an error if the task
// ends before.
func (f *portForwarder) awaitServer(ctx context.Context) error {
	for {
		err := f.client.ProbePort(ctx, f.task.Job, f.task.Index, f.port)
		p := (*api.Problem)(nil)
		if err == nil || !errors.As(err, &p) || p.Code != api.CodePortClosed {
			return err
		}
		select {
		case <-time.After(serverInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

func (a *jobCommands) portForwardCommand() *cobra.Command {
	address := ""
	c := &cobra.Command{
		Use: "port-forward JOB[.NUMBER] [LOCAL:][REMOTE]", Short: "Make a port of a running task available on this machine",
		Long: "Make a TCP port of a running task available on this machine, through the scheduler, until it is interrupted.\n" +
			"REMOTE is the name, the number in the container or the host port of one of the job's ports, or its place among them\n" +
			"from 0, as in PORT0; by default the first.\n" +
			"LOCAL is a port of this machine, by default REMOTE if that is a number without a colon, and otherwise a free one.",
		Example: "  mesos-gpu port-forward notebook 8888:\n  mesos-gpu port-forward web.1 8080:http\n  mesos-gpu port-forward web 8080:0",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return &cli.UsageError{Err: fmt.Errorf("%s needs JOB[.NUMBER], and at most one port", cli.CommandName(c))}
			}
			local, remote := 0, ""
			if len(args) == 2 {
				var err error
				if local, remote, err = parsePorts(args[1]); err != nil {
					return &cli.UsageError{Err: err}
				}
			}
			return a.forwardPort(c.Context(), args[0], net.JoinHostPort(address, strconv.Itoa(local)), remote)
		},
		ValidArgsFunction: a.completeRunning,
	}
	c.Flags().StringVar(&address, "address", "127.0.0.1", "address of this machine to listen on")
	return c
}

// parsePorts splits [LOCAL:][REMOTE]. A number alone is both. A local port of 0 means a free one.
func parsePorts(text string) (local int, remote string, err error) {
	before, remote, split := strings.Cut(text, ":")
	if !split {
		local, _ = strconv.Atoi(text)
		return local, text, nil
	}
	if before != "" {
		if local, err = strconv.Atoi(before); err != nil || local < 0 || local > 65535 {
			return 0, "", fmt.Errorf("%q is not a port of this machine", before)
		}
	}
	return local, remote, nil
}

func (a *jobCommands) forwardPort(ctx context.Context, name, listen, remote string) error {
	c, err := a.NewClient()
	if err != nil {
		return err
	}
	ctx, stop := notifyInterrupt(ctx)
	defer stop()
	task, err := resolveTask(ctx, c, name)
	if err != nil {
		return err
	}
	f, err := newPortForwarder(ctx, a, c, task, listen, remote)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s is forwarded to task %s\n", f.listener.Addr(), task.ID)
	return f.serve(ctx)
}

// portForwarder forwards connections to a port of this machine to that of a task.
type portForwarder struct {
	app      *jobCommands
	client   *client.Client
	task     job.Task
	port     string
	listener net.Listener
}

// newPortForwarder listens, after it has checked that the task has the port.
func newPortForwarder(ctx context.Context, a *jobCommands, c *client.Client, task job.Task, listen, remote string) (*portForwarder, error) {
	view, err := c.GetJob(ctx, task.Job)
	if err != nil {
		return nil, err
	}
	if task.State != job.Running {
		return nil, fmt.Errorf("task %s is %s: ports of running tasks are forwarded", task.ID, task.State)
	}
	if _, err := view.Spec.ConnectAddresses(&task, remote); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	return &portForwarder{a, c, task, remote, l}, nil
}

// serve forwards connections until ctx ends or the task has ended, and returns an error in
// the latter case.
func (f *portForwarder) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { _ = f.listener.Close() })()
	var serving sync.WaitGroup
	defer serving.Wait()
	serving.Go(func() { f.awaitTaskEnd(ctx, cancel) })
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = nil
				if !errors.Is(cause, context.Canceled) {
					err = cause
				}
			}
			cancel(nil)
			return err
		}
		serving.Go(func() { f.forwardConnection(ctx, conn.(*net.TCPConn), cancel) })
	}
}

// awaitTaskEnd calls cancel when the task has ended. If the events cannot be read, the next connection finds that out.
func (f *portForwarder) awaitTaskEnd(ctx context.Context, cancel context.CancelCauseFunc) {
	for ev, err := range f.client.FollowEvents(ctx, f.task.Job) {
		if err != nil {
			return
		}
		if ev.Task == f.task.ID && !ev.State.IsLive() {
			cancel(fmt.Errorf("task %s is %s: %s", ev.Task, ev.State, cmp.Or(term.EscapeControls(ev.Message), "its ports are closed")))
			return
		}
	}
}

// forwardConnection forwards one connection. It calls cancel if the task does not run any more.
func (f *portForwarder) forwardConnection(ctx context.Context, conn *net.TCPConn, cancel context.CancelCauseFunc) {
	err := f.client.ForwardPort(ctx, f.task.Job, f.task.Index, f.port, conn)
	if p := (*api.Problem)(nil); errors.As(err, &p) {
		if p.Code == api.CodeTaskNotRunning || p.Code == api.CodeTaskNotFound || isNotFound(err) {
			cancel(err)
			return
		}
		fmt.Fprintf(f.app.Stderr, "mesos-gpu: %v\n", err)
	}
}

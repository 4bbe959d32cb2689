package leader

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/job"
)

// errLeadershipLost cancels running commands when the leader stops.
var errLeadershipLost = errors.New("this scheduler no longer leads")

// TaskStreams connect clients to running tasks: commands in containers, and ports.
type TaskStreams struct {
	leader *Leader
	// tunnels connect clients to ports of tasks.
	tunnels tunnelTable
}

// Exec runs a command in the container of a running task, through its agent. It
// returns the command's exit status. It fails when the scheduler loses leadership.
func (s *TaskStreams) Exec(ctx context.Context, name string, index int, r api.ExecRequest, t api.Terminal) (int, error) {
	command, err := execCommand(s.leader.Model, name, index, &r)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return s.runCommand(ctx, command, master.ExecStreams{Stdin: t.Stdin, Stdout: t.Stdout, Stderr: t.Stderr, Resize: convertSizes(ctx, t.Resize)})
}

// runCommand runs a command until it, ctx or the leadership ends, and returns its exit status. It returns a
// Problem if the command did not run, or if its exit status is not known.
func (s *TaskStreams) runCommand(ctx context.Context, command master.ExecCommand, streams master.ExecStreams) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.leader.stopped:
			cancel(api.NewUnavailable("%w: ask the one that does", errLeadershipLost))
		case <-ctx.Done():
		}
	}()
	code, err := s.leader.Client.Exec(ctx, command, streams)
	switch {
	case err == nil, errors.As(err, new(*api.Problem)):
		return code, err
	case errors.Is(err, master.ErrNoContainer):
		return 0, api.NewProblemf(http.StatusConflict, "task %q: %w: it may be starting or ending", command.ExecutorID, err)
	case errors.Is(err, master.ErrExitUnknown):
		return 0, api.NewProblemf(http.StatusConflict, "task %q: %w", command.ExecutorID, err).WithCode(api.CodeExitUnknown, "")
	}
	return 0, api.NewProblemf(http.StatusBadGateway, "task %q: %w", command.ExecutorID, err)
}

// execCommand returns the command for the master client, with the task's agent and container. It fails unless the task
// is running. It reads what is recorded: the task may end before the command starts.
func execCommand(model *readmodel.Model, name string, index int, r *api.ExecRequest) (master.ExecCommand, error) {
	j, ok := model.CopyJob(name)
	switch {
	case !ok:
		return master.ExecCommand{}, api.UnknownJob(name)
	case index < 0 || index >= len(j.Tasks):
		return master.ExecCommand{}, api.NewProblemf(http.StatusNotFound, "job %q has no task %d: it has %d", j.Spec.Name,
			index, len(j.Tasks)).WithCode(api.CodeTaskNotFound, j.Spec.Name+"."+strconv.Itoa(index))
	}
	t := &j.Tasks[index]
	if t.State != job.Running {
		return master.ExecCommand{}, api.NewProblemf(http.StatusConflict,
			"task %d of job %q is %s: commands run only in running tasks", index, j.Spec.Name, t.State).WithCode(api.CodeTaskNotRunning, t.ID)
	}
	return master.ExecCommand{
		AgentURL: t.AgentURL, ExecutorID: t.ID, Engine: j.Spec.Containerizer == job.Docker,
		Argv: r.Argv, TTY: r.TTY, Rows: r.Rows, Cols: r.Cols,
	}, nil
}

// convertSizes converts the window sizes of the API to those of the master client, until in is closed or ctx ends. It
// returns nil for a nil channel.
func convertSizes(ctx context.Context, in <-chan api.WindowSize) <-chan master.TerminalSize {
	if in == nil {
		return nil
	}
	out := make(chan master.TerminalSize)
	go func() {
		for {
			select {
			case s, ok := <-in:
				if !ok {
					return
				}
				select {
				case out <- master.TerminalSize(s):
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

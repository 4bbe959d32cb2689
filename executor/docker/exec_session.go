package docker

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/google/uuid"
)

// ExecSession is an interactive command in a task's container. It runs in a
// process of its own inside the executor's container.
type ExecSession struct {
	// Container is the executor's own container. It identifies the task's
	// container.
	Container string
	Argv      []string
	// TTY gives the command a terminal. Sizes has the terminal's sizes; all
	// output goes to Stdout.
	TTY   bool
	Sizes <-chan TerminalSize
	// Stdin is nil for a command without input.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// TerminalSize is in characters.
type TerminalSize struct{ Rows, Cols uint }

// sessionVariable is set in the environment of the session's command. Its
// processes inherit it, so that they can be found and killed.
const sessionVariable = "MESOS_GPU_SESSION"

// Run runs the command to its end and returns its exit code. If this process
// is killed, the executor ends the command.
func (s ExecSession) Run(ctx context.Context, engine *client.Client) (code int, err error) {
	mark := uuid.NewString()
	name := containerNameFor(s.Container)
	options := container.ExecOptions{
		Cmd: s.Argv, Tty: s.TTY, AttachStdin: s.Stdin != nil, AttachStdout: true, AttachStderr: !s.TTY,
		Env: []string{sessionVariable + "=" + mark},
	}
	created, err := engine.ContainerExecCreate(ctx, name, options)
	if err != nil {
		return 0, fmt.Errorf("make command in container %s: %w", name, err)
	}
	guarded, err := registerSession(ctx, name, sessionNotice{ID: created.ID, Mark: mark})
	if err != nil {
		return 0, err
	}
	defer guarded.Close()
	conn, err := engine.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{Tty: s.TTY})
	if err != nil {
		return 0, fmt.Errorf("start command in container %s: %w", name, err)
	}
	defer context.AfterFunc(ctx, conn.Close)()
	defer conn.Close()
	ended := make(chan struct{})
	defer close(ended)
	go s.followTerminalSize(ctx, engine, created.ID, ended)
	if s.Stdin != nil {
		go func() {
			_, _ = io.Copy(conn.Conn, s.Stdin) // a command that has ended reads no more
			_ = conn.CloseWrite()              // the command reads this as end of file
		}()
	}
	if err := s.copyOutput(conn); err != nil {
		return 0, fmt.Errorf("read from command in container %s: %w", name, err)
	}
	code, err = waitExecStatus(ctx, engine, created.ID)
	if errdefs.IsNotFound(err) {
		return 0, fmt.Errorf("container %s ended, and the command with it", name)
	}
	if err != nil {
		return 0, fmt.Errorf("inspect command in container %s: %w", name, err)
	}
	return code, nil
}

// copyOutput copies the command's output to its end.
func (s ExecSession) copyOutput(conn types.HijackedResponse) (err error) {
	if s.TTY {
		_, err = io.Copy(s.Stdout, conn.Reader)
	} else {
		_, err = stdcopy.StdCopy(s.Stdout, s.Stderr, conn.Reader)
	}
	return err
}

// followTerminalSize passes the terminal's sizes on. The engine rejects a size
// until the command runs.
func (s ExecSession) followTerminalSize(ctx context.Context, engine *client.Client, id string, ended <-chan struct{}) {
	for {
		select {
		case size := <-s.Sizes:
			s.resizeTerminal(ctx, engine, id, size, ended)
		case <-ended:
			return
		}
	}
}

// resizeTimeout bounds the wait for the engine to start the command.
const resizeTimeout = 5 * time.Second

// resizeTerminal retries until the engine accepts the size.
func (s ExecSession) resizeTerminal(ctx context.Context, engine *client.Client, id string, size TerminalSize, ended <-chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, resizeTimeout)
	defer cancel()
	for engine.ContainerExecResize(ctx, id, container.ResizeOptions{Height: size.Rows, Width: size.Cols}) != nil {
		select {
		case <-time.After(execPollInterval):
		case <-ended:
			return
		case <-ctx.Done():
			return
		}
	}
}

package master

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	agentcalls "github.com/mesos/mesos-go/api/v1/lib/agent/calls"
)

// ErrNoContainer means that a task has no container on its agent, or not yet.
var ErrNoContainer = errors.New("the task has no container on its agent")

// cleanupTimeout bounds how long ending a command, and forgetting it, may take.
const cleanupTimeout = 10 * time.Second

// ExecCommand is one to run beside a task.
type ExecCommand struct {
	// AgentURL is where the task's agent answers, ExecutorID its executor.
	AgentURL, ExecutorID string
	// Engine says that the task runs in a container of the Docker engine,
	// which the executor's own program reaches. Else it runs in one of the
	// agent's.
	Engine bool
	Argv   []string
	// TTY gives it a terminal of that size, 0 for one that is not known.
	TTY        bool
	Rows, Cols int
}

// TerminalSize is that of a terminal's window, in characters.
type TerminalSize struct{ Rows, Cols int }

// ExecStreams are the other end of a command.
type ExecStreams struct {
	// Stdin is nil for a command that has nothing to read. Run waits for no
	// Read that goes on when the command has ended.
	Stdin io.Reader
	// With a terminal all output goes to Stdout.
	Stdout, Stderr io.Writer
	// Resize tells of a terminal's sizes; nil never does.
	Resize <-chan TerminalSize
}

// Exec runs a command in a running task's container, by the operator API of
// its agent, until it ends or ctx does, and returns its exit code, 128 and the
// signal's number where one ended it. When it returns nothing of the command
// runs any more, as far as its agent can be reached: an agent ends what has
// lost its connection by itself.
// Returns ErrNoContainer, wrapped, if there is no such container.
func (c *Client) Exec(ctx context.Context, cmd ExecCommand, s ExecStreams) (code int, err error) {
	parent, err := c.findContainer(ctx, &cmd)
	if err != nil && ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, err
	}
	r := &remoteCommand{cfg: &c.cfg, httpClient: c.cfg.newHTTPClient(), command: cmd, streams: s}
	r.id = mesos.ContainerID{Value: "exec-" + uuid.NewString(), Parent: &parent}
	defer r.httpClient.CloseIdleConnections()
	return r.runCommand(ctx)
}

// findContainer finds the container that the command is to run beside: the
// executor's own, whose program passes it on, or the one in it.
func (c *Client) findContainer(ctx context.Context, cmd *ExecCommand) (mesos.ContainerID, error) {
	var none mesos.ContainerID
	if cmd.AgentURL == "" {
		return none, fmt.Errorf("%w: the agent's address is not known", ErrNoContainer)
	}
	nested := true
	var answer agent.Response
	ask := agentcalls.GetContainers()
	ask.GetContainers = &agent.Call_GetContainers{ShowNested: &nested}
	if err := c.cfg.callAndDecode(ctx, c.operatorClient, cmd.AgentURL+"/api/v1", ask, &answer); err != nil {
		return none, fmt.Errorf("ask agent %s for its containers: %w", cmd.AgentURL, err)
	}
	list := answer.GetGetContainers().GetContainers()
	executor, ok := findExecutorContainer(list, c.FrameworkID(), cmd.ExecutorID)
	if ok && cmd.Engine {
		return executor, nil
	}
	for _, of := range list {
		// Of a nested one Mesos tells the parent in its status alone.
		id := of.GetContainerStatus().GetContainerID()
		if ok && id != nil && id.Parent != nil && id.Parent.Parent == nil && id.Parent.Value == executor.Value {
			return *id, nil // what checks the task is further down
		}
	}
	return none, fmt.Errorf("%w %s", ErrNoContainer, cmd.AgentURL)
}

// findExecutorContainer finds an executor's own container.
func findExecutorContainer(list []agent.Response_GetContainers_Container, framework, executor string) (id mesos.ContainerID, ok bool) {
	for _, of := range list {
		if of.GetFrameworkID().GetValue() == framework && of.GetExecutorID().GetValue() == executor && of.ContainerID.Parent == nil {
			return of.ContainerID, true
		}
	}
	return id, false
}

// remoteCommand is one command.
type remoteCommand struct {
	cfg        *ConnectionConfig
	httpClient *http.Client // its own: a stream cannot be begun again on another connection
	command    ExecCommand
	streams    ExecStreams
	id         mesos.ContainerID
}

// runCommand ends the command whenever it returns with an error: who closes the
// connection ends it, and this makes sure.
func (r *remoteCommand) runCommand(ctx context.Context) (code int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	launched, err := r.streamSession(ctx, cancel)
	if err == nil {
		code, err = r.waitForExitCode(ctx)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	after, done := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer done()
	switch {
	case err != nil && launched:
		r.killAndForget(after)
		return 0, err
	case err != nil:
		return 0, err
	}
	r.removeContainer(after)
	return code, nil
}

// killAndForget kills the command, and forgets it once it has ended.
func (r *remoteCommand) killAndForget(ctx context.Context) {
	if r.sendCall(ctx, agentcalls.KillNestedContainer(r.id)) != nil {
		return // it has ended, or its agent is away and ends it
	}
	_, _ = r.waitForExitCode(ctx)
	r.removeContainer(ctx)
}

// removeContainer has the agent drop what it keeps of the command, which else goes with
// the task.
func (r *remoteCommand) removeContainer(ctx context.Context) {
	_ = r.sendCall(ctx, agentcalls.RemoveNestedContainer(r.id))
}

func (r *remoteCommand) agentURL() string { return r.command.AgentURL + "/api/v1" }

// sendCall makes a call that is answered by its status.
func (r *remoteCommand) sendCall(ctx context.Context, call *agent.Call) error {
	res, err := r.cfg.postCall(ctx, r.httpClient, r.agentURL(), "", call)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// waitForExitCode asks how the command ended.
func (r *remoteCommand) waitForExitCode(ctx context.Context) (int, error) {
	var answer agent.Response
	if err := r.cfg.callAndDecode(ctx, r.httpClient, r.agentURL(), agentcalls.WaitNestedContainer(r.id), &answer); err != nil {
		return 0, fmt.Errorf("ask agent %s how the command ended: %w", r.command.AgentURL, err)
	}
	w := answer.GetWaitNestedContainer()
	if w == nil || w.ExitStatus == nil {
		return 0, fmt.Errorf("agent %s does not know how the command ended", r.command.AgentURL)
	}
	status := syscall.WaitStatus(*w.ExitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// buildLaunch is the command in Mesos's words.
func (r *remoteCommand) buildLaunch() (*mesos.CommandInfo, *mesos.ContainerInfo) {
	argv, shell := r.command.Argv, false
	if r.command.Engine {
		program := r.cfg.ExecutorPath
		argv = []string{program, "executor", "exec"}
		if r.command.TTY {
			argv = append(argv, "--tty")
		}
		if r.streams.Stdin != nil {
			argv = append(argv, "--stdin")
		}
		argv = append(append(argv, "--"), r.command.Argv...)
	}
	command := &mesos.CommandInfo{Shell: &shell, Value: &argv[0], Arguments: argv}
	if !r.command.TTY {
		return command, nil
	}
	kind := "xterm" // as the Docker engine has it
	command.Environment = &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "TERM", Value: &kind}}}
	tty := &mesos.TTYInfo{}
	if r.command.Rows > 0 && r.command.Cols > 0 {
		tty = TerminalSize{r.command.Rows, r.command.Cols}.ttyInfo()
	}
	return command, &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), TTYInfo: tty}
}

func (s TerminalSize) ttyInfo() *mesos.TTYInfo {
	return &mesos.TTYInfo{WindowSize: &mesos.TTYInfo_WindowSize{Rows: uint32(s.Rows), Columns: uint32(s.Cols)}}
}

// streamSession runs the command to the end of its output.
func (r *remoteCommand) streamSession(ctx context.Context, cancel context.CancelCauseFunc) (launched bool, err error) {
	command, container := r.buildLaunch()
	res, err := r.cfg.postStream(ctx, r.httpClient, r.agentURL(), agentcalls.LaunchNestedContainerSession(r.id, command, container))
	switch {
	case hasStatus(err, http.StatusBadRequest), hasStatus(err, http.StatusNotFound):
		return false, fmt.Errorf("agent %s does not run the command: %w", r.command.AgentURL, err)
	case err != nil:
		// It may run all the same, until the agent sees that nobody listens.
		return true, fmt.Errorf("launch command on agent %s: %w", r.command.AgentURL, err)
	}
	defer res.Body.Close()
	ended, fed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(fed)
		if err := r.feedInput(ctx, ended); err != nil {
			cancel(err)
		}
	}()
	err = r.copyOutput(res.Body, cancel)
	close(ended)
	<-fed
	return true, err
}

// copyOutput hands on what the command writes.
func (r *remoteCommand) copyOutput(body io.Reader, cancel context.CancelCauseFunc) error {
	// Agents' heartbeats say how often they come. Before the first a silent
	// connection is as good as any.
	dog := newHeartbeatWatchdog(cleanupTimeout, func(error) {
		cancel(fmt.Errorf("agent %s has missed %d heartbeats", r.command.AgentURL, maxMissedHeartbeats))
	})
	dog.suspend()
	defer dog.stop()
	beats := false
	for in := newRecordReader(completeReader{body}); ; {
		var m agent.ProcessIO
		switch err := in.readRecord(&m); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("agent %s: connection lost: %w", r.command.AgentURL, err)
		}
		if beat := m.GetControl().GetHeartbeat().GetInterval(); beat != nil {
			dog.setInterval(time.Duration(beat.Nanoseconds).Seconds())
			beats = true
		}
		dog.suspend() // who reads our output may be slow
		if err := r.writeOutput(m.GetData()); err != nil {
			return err
		}
		if beats {
			dog.restart()
		}
	}
}

// completeReader tells a stream that was cut off from one that ended: the command's end
// is not that of a connection.
type completeReader struct{ io.Reader }

func (w completeReader) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it was cut off")
	}
	return n, err
}

func (r *remoteCommand) writeOutput(d *agent.ProcessIO_Data) error {
	to := r.streams.Stdout
	if d.GetType() == agent.ProcessIO_Data_STDERR && r.streams.Stderr != nil {
		to = r.streams.Stderr
	}
	if len(d.GetData()) == 0 || to == nil {
		return nil
	}
	if _, err := to.Write(d.GetData()); err != nil {
		return fmt.Errorf("hand on the command's output: %w", err)
	}
	return nil
}

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

	"mesos-gpu/internal/waitstatus"
)

// ErrNoContainer means that a task has no container on its agent, or not yet.
var ErrNoContainer = errors.New("the task has no container on its agent")

// ErrExitUnknown means that a command has ended and its exit code is not known: the task's container, which the
// command's is below, was removed before the agent was asked for it.
var ErrExitUnknown = errors.New("the task ended before the exit code of the command was read")

// cleanupTimeout bounds the kill and the removal of a command's container.
const cleanupTimeout = 10 * time.Second

// ExecCommand is a command to run in a task's container.
type ExecCommand struct {
	// AgentURL is the URL of the task's agent, ExecutorID the task's executor.
	AgentURL, ExecutorID string
	// Engine means that the task runs in a container of the Docker engine,
	// which is reached through the executor's program. Otherwise it runs in a
	// container of the agent.
	Engine bool
	// Relay runs the relay of package internal/portrelay instead of Argv, in the
	// executor's own container.
	Relay bool
	Argv  []string
	// TTY gives the command a terminal of Rows and Cols; 0 means unknown.
	TTY        bool
	Rows, Cols int
}

// TerminalSize is in characters.
type TerminalSize struct{ Rows, Cols int }

// ExecStreams are the client's side of a command.
type ExecStreams struct {
	// Stdin is nil for a command without input. Exec does not wait for a Read
	// that blocks after the command has ended.
	Stdin io.Reader
	// With a terminal all output goes to Stdout.
	Stdout, Stderr io.Writer
	// Resize has the sizes of the terminal; it may be nil.
	Resize <-chan TerminalSize
}

// Exec runs a command in a running task's container through the operator API
// of its agent, until the command or ctx ends. It returns the exit code, or
// 128 plus the signal's number. After it returns, the command does not run any
// more: it kills the command, and an unreachable agent ends commands whose
// connection is lost. It returns ErrNoContainer, wrapped, if there is no
// container.
func (c *Client) Exec(ctx context.Context, cmd ExecCommand, s ExecStreams) (code int, err error) {
	parent, err := c.findContainer(ctx, &cmd)
	if err != nil && ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, err
	}
	stop := make(chan struct{})
	defer close(stop)
	input := make(chan []byte)
	if s.Stdin != nil {
		go readInput(s.Stdin, input, stop)
	}
	// A command that a terminal's size has ended before its start is launched once more, with the size delayed.
	for delay := false; ; delay = true {
		r := &remoteCommand{
			cfg:            &c.cfg,
			httpClient:     c.cfg.newHTTPClient(),
			command:        cmd,
			streams:        s,
			input:          input,
			delayFirstSize: delay,
			firstOutput:    make(chan struct{}),
		}
		r.id = mesos.ContainerID{Value: "exec-" + uuid.NewString(), Parent: &parent}
		code, err = r.runCommand(ctx)
		r.httpClient.CloseIdleConnections()
		if err != nil || delay || !r.endedBeforeStart() {
			return code, err
		}
	}
}

// findContainer returns the parent container for the command: the executor's
// own if its program passes the command on, else the task's container below
// it.
func (c *Client) findContainer(ctx context.Context, cmd *ExecCommand) (mesos.ContainerID, error) {
	var none mesos.ContainerID
	if cmd.AgentURL == "" {
		return none, fmt.Errorf("%w: the agent's address is not known", ErrNoContainer)
	}
	nested := true
	var answer agent.Response
	call := agentcalls.GetContainers()
	call.GetContainers = &agent.Call_GetContainers{ShowNested: &nested}
	if err := c.cfg.callAndDecode(ctx, c.operatorClient, cmd.AgentURL+"/api/v1", call, &answer); err != nil {
		return none, fmt.Errorf("agent %s: list containers: %w", cmd.AgentURL, err)
	}
	list := answer.GetGetContainers().GetContainers()
	executor, ok := findExecutorContainer(list, c.FrameworkID(), cmd.ExecutorID)
	if ok && (cmd.Engine || cmd.Relay) {
		return executor, nil
	}
	for _, container := range list {
		// Mesos reports the parent of a nested container only in its status.
		id := container.GetContainerStatus().GetContainerID()
		if ok && id != nil && id.Parent != nil && id.Parent.Parent == nil && id.Parent.Value == executor.Value {
			return *id, nil // containers of checks are below it
		}
	}
	return none, fmt.Errorf("%w %s", ErrNoContainer, cmd.AgentURL)
}

// findExecutorContainer returns an executor's own container.
func findExecutorContainer(list []agent.Response_GetContainers_Container, framework, executor string) (id mesos.ContainerID, ok bool) {
	for _, container := range list {
		if container.GetFrameworkID().GetValue() == framework && container.GetExecutorID().GetValue() == executor && container.ContainerID.Parent == nil {
			return container.ContainerID, true
		}
	}
	return id, false
}

// remoteCommand is one running command. Two goroutines use it: one reads the output and one feeds the input. inputSent
// belongs to the second until it has ended, everything else that changes to the first.
type remoteCommand struct {
	// cfg has the credential and the timeouts for calls to the agent.
	cfg *ConnectionConfig
	// httpClient serves this command alone: a stream cannot be resumed on another connection.
	httpClient *http.Client
	command    ExecCommand
	streams    ExecStreams
	// id is the nested container of the command.
	id mesos.ContainerID
	// input has the parts of Stdin, and is closed at its end.
	input <-chan []byte
	// delayFirstSize holds the first size of the terminal back until the command runs.
	delayFirstSize bool
	// inputSent means that the agent may have received a part of the input.
	inputSent bool
	// firstOutput is closed when the command has written something, so it runs.
	firstOutput chan struct{}
	// endedByResize means that SIGWINCH ended the command. Programs ignore that signal by
	// default, Mesos's launcher does not.
	endedByResize bool
}

// endedBeforeStart reports whether a size of the terminal ended Mesos's launcher before it
// started the program, so that it can be launched again.
func (r *remoteCommand) endedBeforeStart() bool {
	select {
	case <-r.firstOutput:
		return false
	default:
		return r.endedByResize && r.command.TTY && !r.inputSent
	}
}

// runCommand kills the command whenever it returns an error, in case the
// closed connection does not end it.
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

// killAndForget kills the command's container and removes it after it has
// ended.
func (r *remoteCommand) killAndForget(ctx context.Context) {
	if r.sendCall(ctx, agentcalls.KillNestedContainer(r.id)) != nil {
		return // it has ended, or its agent is unreachable and ends it
	}
	_, _ = r.waitForExitCode(ctx)
	r.removeContainer(ctx)
}

// removeContainer removes the ended container from the agent. If that fails,
// it is removed with the task.
func (r *remoteCommand) removeContainer(ctx context.Context) {
	_ = r.sendCall(ctx, agentcalls.RemoveNestedContainer(r.id))
}

// agentURL returns the URL of the operator API of the command's agent.
func (r *remoteCommand) agentURL() string { return r.command.AgentURL + "/api/v1" }

// sendCall makes a call whose answer is only a status.
func (r *remoteCommand) sendCall(ctx context.Context, call *agent.Call) error {
	res, err := r.cfg.postCall(ctx, r.httpClient, r.agentURL(), "", call)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// waitForExitCode returns the exit code of the command after its end.
func (r *remoteCommand) waitForExitCode(ctx context.Context) (int, error) {
	var answer agent.Response
	err := r.cfg.callAndDecode(ctx, r.httpClient, r.agentURL(), agentcalls.WaitNestedContainer(r.id), &answer)
	switch {
	case hasStatus(err, http.StatusNotFound):
		return 0, fmt.Errorf("agent %s: %w", r.command.AgentURL, ErrExitUnknown)
	case err != nil:
		return 0, fmt.Errorf("agent %s: read how the command ended: %w", r.command.AgentURL, err)
	}
	w := answer.GetWaitNestedContainer()
	if w == nil || w.ExitStatus == nil {
		return 0, fmt.Errorf("agent %s has no exit status of the command", r.command.AgentURL)
	}
	status := waitstatus.ParseAgentStatus(*w.ExitStatus)
	if status.Signaled() {
		r.endedByResize = status.Signal() == syscall.SIGWINCH
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// buildLaunch converts the command to Mesos's messages.
func (r *remoteCommand) buildLaunch() (*mesos.CommandInfo, *mesos.ContainerInfo) {
	argv, shell := r.command.Argv, false
	program := r.cfg.ExecutorPath
	switch {
	case r.command.Relay:
		argv = []string{program, "executor", "relay"}
	case r.command.Engine:
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

// ttyInfo returns the size as a message of Mesos.
func (s TerminalSize) ttyInfo() *mesos.TTYInfo {
	return &mesos.TTYInfo{WindowSize: &mesos.TTYInfo_WindowSize{Rows: uint32(s.Rows), Columns: uint32(s.Cols)}}
}

// streamSession runs the command to the end of its output. launched is false only if the agent certainly has not started
// it. A failure of the input cancels the context by cancel, so that the cause is not hidden by the end of the output.
func (r *remoteCommand) streamSession(ctx context.Context, cancel context.CancelCauseFunc) (launched bool, err error) {
	command, container := r.buildLaunch()
	res, err := r.cfg.postStream(ctx, r.httpClient, r.agentURL(), agentcalls.LaunchNestedContainerSession(r.id, command, container))
	switch {
	case hasStatus(err, http.StatusBadRequest), hasStatus(err, http.StatusNotFound):
		return false, fmt.Errorf("agent %s does not run the command: %w", r.command.AgentURL, err)
	case err != nil:
		// It may run anyway, until the agent notices that the connection is
		// closed.
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

// copyOutput copies the command's output to the streams.
func (r *remoteCommand) copyOutput(body io.Reader, cancel context.CancelCauseFunc) error {
	// The agent's heartbeats announce their interval. Before the first one a
	// silent connection is not an error.
	watchdog := newHeartbeatWatchdog(cleanupTimeout, func(error) {
		cancel(fmt.Errorf("agent %s has missed %d heartbeats", r.command.AgentURL, maxMissedHeartbeats))
	})
	watchdog.suspend()
	defer watchdog.stop()
	beats, silent := false, true
	for in := newRecordReader(completeReader{body}); ; {
		var m agent.ProcessIO
		switch err := in.readRecord(&m); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("agent %s: connection lost: %w", r.command.AgentURL, err)
		}
		if beat := m.GetControl().GetHeartbeat().GetInterval(); beat != nil {
			watchdog.setInterval(time.Duration(beat.Nanoseconds).Seconds())
			beats = true
		}
		if silent && len(m.GetData().GetData()) > 0 {
			close(r.firstOutput)
			silent = false
		}
		watchdog.suspend() // the reader of the output may be slow
		if err := r.writeOutput(m.GetData()); err != nil {
			return err
		}
		if beats {
			watchdog.restart()
		}
	}
}

// completeReader returns an error for a stream that was cut off, so that it is
// not mistaken for the end of the command.
type completeReader struct{ io.Reader }

func (r completeReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it was cut off")
	}
	return n, err
}

// writeOutput writes a part of the output to the stream that it belongs to. Without a reader it is dropped.
func (r *remoteCommand) writeOutput(d *agent.ProcessIO_Data) error {
	to := r.streams.Stdout
	if d.GetType() == agent.ProcessIO_Data_STDERR && r.streams.Stderr != nil {
		to = r.streams.Stderr
	}
	if len(d.GetData()) == 0 || to == nil {
		return nil
	}
	if _, err := to.Write(d.GetData()); err != nil {
		return fmt.Errorf("write the command's output: %w", err)
	}
	return nil
}

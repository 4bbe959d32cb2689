// Package unified runs a task as a nested container of the executor's
// container, through the v1 API of the agent that started it. It decides how a
// task is expressed in Mesos's messages and when a call is retried. It passes
// no devices: a nested container shares its parent's cgroups, so it can open
// exactly what the executor can.
package unified

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/apierrors"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/rotate"
	"mesos-gpu/executor/task"
	"mesos-gpu/internal/memorycgroup"
	"mesos-gpu/internal/waitstatus"
)

// NestedRuntime implements task.Runtime.
type NestedRuntime struct {
	// Agent sends calls to the agent's v1 API. It must not time out: a WAIT
	// lasts as long as the task.
	Agent calls.Sender
	// Sandbox is the executor's. The nested container's sandbox is below it.
	Sandbox string
	// Logs limits the size of the task's stdout and stderr.
	Logs rotate.RotationLimits
	Log  logrus.FieldLogger
	// Memory is the cgroup of the executor and its nested container, zero if it is not visible.
	Memory memorycgroup.Group

	pollOutput bool // for tests, whose clock stands still while a goroutine waits for the kernel
}

const (
	// retryInterval is the pause before a retry of a call that an unreachable
	// or recovering agent did not answer.
	retryInterval = time.Second
	// abortTimeout bounds the cleanup of a launch.
	abortTimeout = 10 * time.Second
)

// errUnknownContainer means that the agent does not know the container any
// more.
var errUnknownContainer = errors.New("container is gone")

// Start implements task.Runtime.
func (u *NestedRuntime) Start(ctx context.Context, t task.TaskSpec) (task.RunningTask, error) {
	if t.Container.Value == "" {
		return nil, errors.New("the agent did not name the executor's container: it is older than Mesos 1.2, use container: docker")
	}
	parent := t.Container
	r := &nestedContainer{
		agent: u.Agent, id: mesos.ContainerID{Value: uuid.NewString(), Parent: &parent},
		memory: u.Memory, log: u.Log, sandbox: u.Sandbox, logs: u.Logs, ended: make(chan struct{}), networked: len(t.MesosContainer.GetNetworkInfos()) > 0,
	}
	command, container := buildLaunch(t, filepath.Join(u.Sandbox, nestedPath(r.id.Value, "")))
	r.user, r.program = command.User, command.GetValue()
	if command.User != nil && t.Image == "" {
		if err := task.AllowTraversal(u.Sandbox); err != nil {
			return nil, err
		}
	}
	r.output = watchOutput(u.Sandbox, r.id.Value, u.pollOutput, u.Log)
	if err := r.launchContainer(ctx, command, container); err != nil {
		r.killContainer()
		r.output.close()
		return nil, fmt.Errorf("launch nested container%s: %w", imageSuffix(t), image.ParseAgentError(task.ParseAgentFault(err)))
	}
	if err := linkOutput(u.Sandbox, r.id.Value); err != nil {
		r.killContainer()
		r.output.close()
		return nil, err
	}
	return r, nil
}

func imageSuffix(t task.TaskSpec) string {
	if t.Image == "" {
		return ""
	}
	return " of image " + t.Image
}

var (
	_ task.RunningTask = (*nestedContainer)(nil)
	_ task.ProbeTarget = (*nestedContainer)(nil)
)

// nestedContainer is a nested container of the executor's.
type nestedContainer struct {
	agent   calls.Sender
	id      mesos.ContainerID
	memory  memorycgroup.Group
	log     logrus.FieldLogger
	sandbox string
	logs    rotate.RotationLimits
	output  *outputWatch
	ended   chan struct{} // closed when Wait returns
	// user is the user that the task's command runs as, nil for the default.
	// networked is set if the container has its own network.
	// program is the first word of the command, or "" for the image's.
	user      *string
	program   string
	networked bool
}

// launchContainer retries until the agent answers. A lost answer does no harm:
// the agent treats a second launch with the same id as the first one.
func (r *nestedContainer) launchContainer(ctx context.Context, command *mesos.CommandInfo, container *mesos.ContainerInfo) error {
	return r.retryCall(ctx, func() error {
		response, err := r.agent.Send(ctx, calls.NonStreaming(calls.LaunchNestedContainer(r.id, command, container)))
		if response != nil {
			response.Close()
		}
		return err
	})
}

// Wait implements task.RunningTask.
func (r *nestedContainer) Wait(ctx context.Context) (task.ExitStatus, error) {
	var rotating sync.WaitGroup
	rotating.Go(func() { r.rotateOutput(ctx) })
	defer r.output.close()
	defer rotating.Wait()
	defer close(r.ended)
	var exit task.ExitStatus
	err := r.retryCall(ctx, func() (err error) {
		exit, err = r.waitOnce(ctx)
		return err
	})
	switch {
	case ctx.Err() != nil:
		r.killContainer()
		return task.ExitStatus{}, fmt.Errorf("stopped waiting for nested container %s: %w", r.id.Value, context.Cause(ctx))
	case errors.Is(err, errUnknownContainer):
		return task.ExitStatus{}, fmt.Errorf("agent has no record of how nested container %s ended: see its log", r.id.Value)
	case err != nil:
		return task.ExitStatus{}, fmt.Errorf("wait for nested container %s: %w", r.id.Value, err)
	}
	r.parseLauncherOutput(&exit)
	r.explainMemory(&exit)
	return exit, nil
}

// explainMemory sets the reason of a failure for lack of memory. The agent may not have noticed it yet.
func (r *nestedContainer) explainMemory(exit *task.ExitStatus) {
	// Without the isolator for memory it is the agent's cgroup.
	if exit.Succeeded() || exit.Message != "" || !r.memory.HasName(r.id.Parent.Value) {
		return
	}
	if u, err := r.memory.ReadUsage(); err == nil && u.OOMKills > 0 {
		exit.Message = fmt.Sprintf("out of memory: %s, with the executor", u)
		exit.Reason = mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum()
	}
}

// maxLauncherLine bounds the message of Mesos's launcher for a program that it cannot
// start, in bytes.
const maxLauncherLine = 4 << 10

// parseLauncherOutput sets the exit code of a shell for a program that Mesos's launcher
// could not start. The launcher writes the reason to standard error, maybe after a line
// about mounts, and exits with code 1.
func (r *nestedContainer) parseLauncherOutput(exit *task.ExitStatus) {
	if exit.Code != 1 || r.program == "" {
		return
	}
	sandbox, err := os.OpenRoot(r.sandbox)
	if err != nil {
		return
	}
	defer sandbox.Close()
	f, err := sandbox.OpenFile(nestedPath(r.id.Value, "stderr"), os.O_RDONLY|syscall.O_NONBLOCK, 0) // the task may have made it a pipe
	if err != nil {
		return
	}
	defer f.Close()
	text := make([]byte, maxLauncherLine)
	n, _ := io.ReadFull(f, text)
	line, rest, _ := strings.Cut(string(text[:n]), "\n")
	if strings.HasPrefix(line, "Marked '/' as ") {
		line, _, _ = strings.Cut(rest, "\n")
	}
	if !strings.HasPrefix(line, "Failed to execute") {
		return
	}
	if code, message := task.ParseStartFailure(r.program, line); code != 0 {
		exit.Code, exit.Message = code, message
	}
}

// waitOnce makes one call, which lasts until the container ends.
func (r *nestedContainer) waitOnce(ctx context.Context) (task.ExitStatus, error) {
	response, err := r.agent.Send(ctx, calls.NonStreaming(calls.WaitNestedContainer(r.id)))
	if response != nil {
		defer response.Close()
	}
	if err != nil {
		return task.ExitStatus{}, err
	}
	if response == nil {
		return task.ExitStatus{}, permanentError{errors.New("agent answered without a body")}
	}
	var answer agent.Response
	if err := response.Decode(&answer); err != nil {
		return task.ExitStatus{}, err
	}
	w := answer.WaitNestedContainer
	if w == nil {
		return task.ExitStatus{}, permanentError{fmt.Errorf("agent answered %s", answer.GetType())}
	}
	return parseExit(w), nil
}

func parseExit(w *agent.Response_WaitNestedContainer) task.ExitStatus {
	exit := task.ExitStatus{NoStatus: true}
	if w.ExitStatus != nil {
		exit = task.ParseWaitStatus(waitstatus.ParseAgentStatus(*w.ExitStatus))
	}
	if w.Message != nil {
		exit.Message = *w.Message
	}
	exit.State, exit.Reason, exit.Limitation = w.State, w.Reason, w.Limitation
	return exit
}

// Signal implements task.RunningTask. The agent sends SIGKILL to the whole
// container, any other signal to its first process.
func (r *nestedContainer) Signal(ctx context.Context, sig syscall.Signal) error {
	number := int32(sig)
	call := calls.KillNestedContainer(r.id)
	call.KillNestedContainer.Signal = &number
	response, err := r.agent.Send(ctx, calls.NonStreaming(call))
	if response != nil {
		response.Close()
	}
	if err != nil && !apierrors.CodeNotFound.Matches(err) {
		return fmt.Errorf("send signal %d to nested container %s: %w", number, r.id.Value, err)
	}
	return nil
}

// killContainer kills the container. An unreachable agent destroys it together
// with this executor.
func (r *nestedContainer) killContainer() {
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	if err := r.Signal(ctx, syscall.SIGKILL); err != nil {
		r.log.WithError(err).Warn("cannot kill the nested container; the agent destroys it with this executor")
	}
}

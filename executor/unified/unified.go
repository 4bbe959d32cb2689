// Package unified runs a task as a nested container of the executor's own, by
// the v1 API of the agent that started it. It decides how a Launch reads in
// Mesos's words and when a call to an agent that is away is made again. It
// passes no devices: a nested container shares its parent's cgroups, so it can
// open just what the executor can.
package unified

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/apierrors"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/rotate"
	"mesos-gpu/executor/task"
)

// Runtime implements task.Runtime.
type Runtime struct {
	// Agent sends calls to the agent's v1 API. A WAIT lasts as long as the
	// task: Agent must not time out.
	Agent calls.Sender
	// Sandbox is the executor's; the nested container's lies below it.
	Sandbox string
	// Logs bound the task's stdout and stderr.
	Logs rotate.Limits
	Log  logrus.FieldLogger
}

const (
	// again is the pause before a call that an absent or recovering agent
	// did not answer is made again.
	again = time.Second
	// abortTimeout bounds taking back a launch.
	abortTimeout = 10 * time.Second
)

// errGone says that the agent knows the container no more.
var errGone = errors.New("container is gone")

// Start implements task.Runtime.
func (u *Runtime) Start(ctx context.Context, t task.Task) (task.Running, error) {
	if t.Container.Value == "" {
		return nil, errors.New("the agent did not name the executor's container: it is older than Mesos 1.2, use container: docker")
	}
	parent := t.Container
	r := &running{
		agent: u.Agent, id: mesos.ContainerID{Value: uuid.NewString(), Parent: &parent},
		log: u.Log, sandbox: u.Sandbox, logs: u.Logs, ended: make(chan struct{}), networked: len(t.MesosContainer.GetNetworkInfos()) > 0,
	}
	command, container := describe(t)
	r.user = command.User
	if err := r.launch(ctx, command, container); err != nil {
		r.abort()
		return nil, fmt.Errorf("launch nested container%s: %w", ofImage(t), err)
	}
	if err := linkOutput(u.Sandbox, r.id.Value); err != nil {
		r.abort()
		return nil, err
	}
	return r, nil
}

func ofImage(t task.Task) string {
	if t.Image == "" {
		return ""
	}
	return " of image " + t.Image
}

// running is a nested container. It implements task.Running and task.Probed.
type running struct {
	agent   calls.Sender
	id      mesos.ContainerID
	log     logrus.FieldLogger
	sandbox string
	logs    rotate.Limits
	ended   chan struct{} // closed once Wait is done
	// user is who runs the task's command, where it says so; networked that
	// it has a network of its own.
	user      *string
	networked bool
}

// launch asks for the container until the agent answers. The agent takes the
// same id twice for one launch, so a lost answer does no harm.
func (r *running) launch(ctx context.Context, command *mesos.CommandInfo, container *mesos.ContainerInfo) error {
	return r.retry(ctx, func() error {
		response, err := r.agent.Send(ctx, calls.NonStreaming(calls.LaunchNestedContainer(r.id, command, container)))
		if response != nil {
			response.Close()
		}
		return err
	})
}

// Wait implements task.Running.
func (r *running) Wait(ctx context.Context) (task.Exit, error) {
	var rotating sync.WaitGroup
	rotating.Go(func() { r.rotate(ctx) })
	defer rotating.Wait()
	defer close(r.ended)
	var exit task.Exit
	err := r.retry(ctx, func() (err error) {
		exit, err = r.wait(ctx)
		return err
	})
	switch {
	case ctx.Err() != nil:
		r.abort()
		return task.Exit{}, fmt.Errorf("stopped waiting for nested container %s: %w", r.id.Value, context.Cause(ctx))
	case errors.Is(err, errGone):
		return task.Exit{}, fmt.Errorf("agent has no record of how nested container %s ended: see its log", r.id.Value)
	case err != nil:
		return task.Exit{}, fmt.Errorf("wait for nested container %s: %w", r.id.Value, err)
	}
	return exit, nil
}

// wait makes one call, which lasts until the container ends.
func (r *running) wait(ctx context.Context) (task.Exit, error) {
	response, err := r.agent.Send(ctx, calls.NonStreaming(calls.WaitNestedContainer(r.id)))
	if response != nil {
		defer response.Close()
	}
	if err != nil {
		return task.Exit{}, err
	}
	if response == nil {
		return task.Exit{}, fatal{errors.New("agent answered without a body")}
	}
	var answer agent.Response
	if err := response.Decode(&answer); err != nil {
		return task.Exit{}, err
	}
	w := answer.WaitNestedContainer
	if w == nil {
		return task.Exit{}, fatal{fmt.Errorf("agent answered %s", answer.GetType())}
	}
	return exitOf(w), nil
}

func exitOf(w *agent.Response_WaitNestedContainer) task.Exit {
	exit := task.Exit{NoStatus: true}
	if w.ExitStatus != nil {
		exit = task.ExitOf(int(*w.ExitStatus))
	}
	if w.Message != nil {
		exit.Message = *w.Message
	}
	exit.State, exit.Reason, exit.Limitation = w.State, w.Reason, w.Limitation
	return exit
}

// Signal implements task.Running. The agent takes SIGKILL for the whole
// container, any other signal for its first process.
func (r *running) Signal(ctx context.Context, sig syscall.Signal) error {
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

// abort takes the container back, as far as the agent can be reached; one
// that cannot destroys it together with this executor.
func (r *running) abort() {
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	if err := r.Signal(ctx, syscall.SIGKILL); err != nil {
		r.log.WithError(err).Warn("nested container is left to the agent")
	}
}

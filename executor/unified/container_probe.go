package unified

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/apierrors"

	"mesos-gpu/executor/task"
)

// checkCleanupTimeout bounds the end and the removal of a check's container
// after it is killed.
const checkCleanupTimeout = 10 * time.Second

// taskEndTimeout bounds the time between the end of a check's container and
// the end of its task, if the agent killed both.
const taskEndTimeout = 5 * time.Second

// ProbeAddress implements task.ProbeTarget. A nested container shares its
// executor's network unless it has its own.
func (r *nestedContainer) ProbeAddress() string {
	if r.networked {
		return ""
	}
	return "127.0.0.1"
}

// ExecProbe implements task.ProbeTarget by a nested container session: a
// container below the task's own that shares its file system and environment.
// The agent kills it when its connection is closed.
func (r *nestedContainer) ExecProbe(ctx context.Context, argv []string, env map[string]string) (code int, err error) {
	parent := r.id
	check := &nestedContainer{agent: r.agent, id: mesos.ContainerID{Value: "check-" + uuid.NewString(), Parent: &parent}, log: r.log}
	shell := false
	command := &mesos.CommandInfo{Shell: &shell, Value: &argv[0], Arguments: argv, User: r.user, Environment: &mesos.Environment{Variables: sortedVariables(env)}}
	launched, err := check.runSession(ctx, command)
	if !launched {
		return 0, err
	}
	// The cleanup must not end with ctx.
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkCleanupTimeout)
	defer cancel()
	exit, waited := check.waitOnce(after)
	check.removeContainer(after)
	switch {
	case ctx.Err() != nil:
		return 0, errors.New("command did not end in time")
	case err != nil:
		return 0, err
	case waited != nil:
		return 0, fmt.Errorf("%w: %w", task.ErrNotReached, waited)
	case exit.Signal == syscall.SIGKILL && r.waitForTaskEnd(ctx):
		return 0, fmt.Errorf("%w: the agent killed the check with its task", task.ErrNotReached)
	case exit.Signal != 0 || exit.NoStatus:
		return 0, fmt.Errorf("command was %s", exit)
	}
	return exit.Code, nil
}

// waitForTaskEnd waits for the task's end. The agent kills checks with their
// task, and reports the end of the check first.
func (r *nestedContainer) waitForTaskEnd(ctx context.Context) bool {
	select {
	case <-r.ended:
		return true
	case <-ctx.Done():
	case <-time.After(taskEndTimeout):
	}
	return false
}

// runSession runs a command to its end and discards its output, as for checks
// in docker containers.
func (r *nestedContainer) runSession(ctx context.Context, command *mesos.CommandInfo) (launched bool, err error) {
	response, err := r.agent.Send(ctx, calls.NonStreaming(calls.LaunchNestedContainerSession(r.id, command, nil)))
	if response != nil {
		defer response.Close()
	}
	switch {
	case err == nil && response != nil:
	case ctx.Err() != nil:
		return true, ctx.Err() // the agent may have launched it
	case isForbidden(err):
		return false, classifyError(err)
	default:
		// Agents also reject it if the task is ending.
		r.log.WithError(err).Warn("agent did not run a check")
		return false, fmt.Errorf("%w: %w", task.ErrNotReached, err)
	}
	for {
		var output agent.ProcessIO
		switch err := response.Decode(&output); {
		case err == nil:
		case errors.Is(err, io.EOF):
			return true, nil
		default:
			return true, fmt.Errorf("%w: %w", task.ErrNotReached, err)
		}
	}
}

func isForbidden(err error) bool {
	return apierrors.CodeNotAuthenticated.Matches(err) || apierrors.CodeUnsubscribed.Matches(err)
}

// removeContainer removes an ended container from the agent. If that fails, it
// is removed with its executor.
func (r *nestedContainer) removeContainer(ctx context.Context) {
	response, err := r.agent.Send(ctx, calls.NonStreaming(calls.RemoveNestedContainer(r.id)))
	if response != nil {
		response.Close()
	}
	if err != nil && !apierrors.CodeNotFound.Matches(err) {
		r.log.WithError(err).Warn("agent did not remove a check's container")
	}
}

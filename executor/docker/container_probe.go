package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"mesos-gpu/executor/task"
)

// DescribeContainer implements task.ContainerDescriber: what `docker inspect` prints, and the
// container's addresses in networks of its own.
func (r *runningContainer) DescribeContainer() (data []byte, addresses []string) {
	return r.data, r.addresses
}

// inspectStarted asks the engine once the container runs. Not to know it is no
// reason to end the task.
func (r *runningContainer) inspectStarted(ctx context.Context) {
	c, raw, err := r.engine.ContainerInspectWithRaw(ctx, r.id, false)
	if err != nil {
		r.log.WithError(err).Warn("container's address and description are unknown")
		return
	}
	r.data, _ = json.Marshal([]json.RawMessage{raw})
	if c.NetworkSettings != nil {
		for _, n := range c.NetworkSettings.Networks {
			for _, address := range []string{n.IPAddress, n.GlobalIPv6Address} {
				if address != "" {
					r.addresses = append(r.addresses, address)
				}
			}
		}
	}
	if c.HostConfig != nil && c.HostConfig.NetworkMode.IsHost() {
		r.probeAddress = "127.0.0.1"
	} else if len(r.addresses) > 0 {
		r.probeAddress = r.addresses[0]
	}
}

// ProbeAddress implements task.ProbeTarget.
func (r *runningContainer) ProbeAddress() string { return r.probeAddress }

// MeasureWritten implements task.DiskMeasurer: what the engine counts in the container's
// own layer. Volumes and /dev/shm are not in it.
func (r *runningContainer) MeasureWritten(ctx context.Context) (bytes int64, err error) {
	c, _, err := r.engine.ContainerInspectWithRaw(ctx, r.id, true)
	if err != nil {
		return 0, fmt.Errorf("measure container %s: %w", r.name, err)
	}
	if c.SizeRw == nil {
		return 0, fmt.Errorf("measure container %s: the engine gives no size", r.name)
	}
	return *c.SizeRw, nil
}

// maxLeftCommands is how many commands may run on in a container beyond their time.
const maxLeftCommands = 3

// ExecProbe implements task.ProbeTarget: docker exec. The engine cannot end a command
// that outlasts ctx; it goes with its container, and until then few others
// begin beside it.
func (r *runningContainer) ExecProbe(ctx context.Context, argv []string, env map[string]string) (code int, err error) {
	if err := r.checkLeftCommands(ctx); err != nil {
		return 0, err
	}
	options := container.ExecOptions{Cmd: argv, AttachStdout: true, AttachStderr: true}
	for name, value := range env {
		options.Env = append(options.Env, name+"="+value)
	}
	code, id, err := r.runCommand(ctx, options)
	if ctx.Err() != nil && id != "" {
		r.leftMu.Lock()
		defer r.leftMu.Unlock()
		r.leftCommands = append(r.leftCommands, id)
	}
	return code, err
}

// checkLeftCommands is an error where as many commands are left behind as may be.
func (r *runningContainer) checkLeftCommands(ctx context.Context) error {
	r.leftMu.Lock()
	defer r.leftMu.Unlock()
	var left []string
	for _, id := range r.leftCommands {
		e, err := r.engine.ContainerExecInspect(ctx, id)
		if err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("inspect command in container %s: %w", r.name, markNotReached(err))
		}
		if err == nil && e.Running {
			left = append(left, id)
		}
	}
	r.leftCommands = left
	if len(left) >= maxLeftCommands {
		return fmt.Errorf("command was not started: %d run on in the container beyond their time: have the command end itself, as by timeout(1)", len(left))
	}
	return nil
}

// runCommand returns the command's id where the engine made one.
func (r *runningContainer) runCommand(ctx context.Context, options container.ExecOptions) (code int, id string, err error) {
	created, err := r.engine.ContainerExecCreate(ctx, r.id, options)
	if err != nil {
		return 0, "", fmt.Errorf("make command in container %s: %w", r.name, markNotReached(err))
	}
	conn, err := r.engine.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return 0, created.ID, fmt.Errorf("start command in container %s: %w", r.name, markNotReached(err))
	}
	stop := context.AfterFunc(ctx, conn.Close)
	defer conn.Close()
	_, err = io.Copy(io.Discard, conn.Reader)
	if !stop() {
		return 0, created.ID, errors.New("command did not end in time")
	}
	if err != nil {
		return 0, created.ID, fmt.Errorf("read from command in container %s: %w: %w", r.name, task.ErrNotReached, err)
	}
	code, err = waitExecStatus(ctx, r.engine, created.ID)
	if err != nil {
		return 0, created.ID, fmt.Errorf("inspect command in container %s: %w", r.name, markNotReached(err))
	}
	return code, created.ID, nil
}

// execPollInterval is the pause between two looks at a command whose output ended
// before the engine knew of its end.
// One that closed its output itself may run on for long.
const execPollInterval, maxExecPollInterval = 20 * time.Millisecond, time.Second

// waitExecStatus waits for a command's exit status.
func waitExecStatus(ctx context.Context, engine *client.Client, id string) (int, error) {
	for again := execPollInterval; ; again = min(2*again, maxExecPollInterval) {
		e, err := engine.ContainerExecInspect(ctx, id)
		if err != nil || !e.Running {
			return e.ExitCode, err
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// markNotReached marks the errors of an engine that is away and of a container that
// has ended: the task has no part in them.
func markNotReached(err error) error {
	if client.IsErrConnectionFailed(err) || errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return fmt.Errorf("%w: %w", task.ErrNotReached, err)
	}
	return err
}

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

// DescribeContainer implements task.ContainerDescriber. data is the output of
// `docker inspect` without environment variables; addresses are those in the
// container's own networks.
func (r *runningContainer) DescribeContainer() (data []byte, addresses []string) {
	return r.data, r.addresses
}

// inspectStarted stores the description and addresses of the started
// container. If the engine does not return them, the task continues without.
func (r *runningContainer) inspectStarted(ctx context.Context) {
	c, raw, err := r.engine.ContainerInspectWithRaw(ctx, r.id, false)
	if err != nil {
		r.log.WithError(err).Warn("cannot read the container's address and description")
		return
	}
	if r.data, err = withoutEnv(raw); err != nil {
		r.log.WithError(err).Warn("cannot describe the container")
	}
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

// withoutEnv returns the engine's answer as `docker inspect` prints it, but
// without environment variables: they have the values of secrets, and agent,
// master and framework get and store the result.
func withoutEnv(raw []byte) ([]byte, error) {
	var description, config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &description); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(description["Config"], &config); err != nil {
		return nil, fmt.Errorf("read Config: %w", err)
	}
	delete(config, "Env")
	var err error
	if description["Config"], err = json.Marshal(config); err != nil {
		return nil, err
	}
	return json.Marshal([]any{description})
}

// ProbeAddress implements task.ProbeTarget.
func (r *runningContainer) ProbeAddress() string { return r.probeAddress }

// MeasureWritten implements task.DiskMeasurer. It returns the size of the
// container's writable layer, without volumes and /dev/shm.
func (r *runningContainer) MeasureWritten(ctx context.Context) (bytes int64, err error) {
	c, _, err := r.engine.ContainerInspectWithRaw(ctx, r.id, true)
	if err != nil {
		return 0, fmt.Errorf("measure container %s: %w", r.name, err)
	}
	if c.SizeRw == nil {
		return 0, fmt.Errorf("measure container %s: the engine returned no size", r.name)
	}
	return *c.SizeRw, nil
}

// maxLeftCommands bounds the commands that still run in a container after
// their timeout.
const maxLeftCommands = 3

// ExecProbe implements task.ProbeTarget by `docker exec`. The engine cannot
// end a command that outlasts ctx: the command ends with its container, and
// maxLeftCommands bounds how many of them there are.
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

// checkLeftCommands returns an error if maxLeftCommands commands are still
// running.
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
		return fmt.Errorf("command was not started: %d commands still run in the container after their timeout: "+
			"let the command end itself, for example by timeout(1)",
			len(left))
	}
	return nil
}

// runCommand runs a command to its end. It returns the command's id if the
// engine created one, even on an error.
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

// execPollInterval is the first pause between two polls of a command whose
// output has ended: the engine may learn of its end later. The pause doubles
// up to maxExecPollInterval, because a command that closed its output may run
// for long.
const execPollInterval, maxExecPollInterval = 20 * time.Millisecond, time.Second

// waitExecStatus waits for a command's exit code.
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

// markNotReached marks errors of an unreachable engine or an ended container,
// which say nothing about the task's health.
func markNotReached(err error) error {
	if client.IsErrConnectionFailed(err) || errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return fmt.Errorf("%w: %w", task.ErrNotReached, err)
	}
	return err
}

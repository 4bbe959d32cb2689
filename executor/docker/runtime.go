// Package docker runs a task in a container of the Docker engine, through the
// engine's API. It decides what a container gets: the GPU nodes that the
// executor was granted, one by one, and the driver's volume where the image
// asks for it. It never makes a container privileged and never leaves the
// choice of devices to an environment variable.
package docker

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/rotate"
	"mesos-gpu/executor/task"
)

// EngineRuntime implements task.Runtime.
type EngineRuntime struct {
	// NewClient makes a client of the engine.
	NewClient func() (*client.Client, error)
	// PrepareVolume returns the driver volume's host path.
	PrepareVolume func(ctx context.Context) (string, error)
	// ReadHost tells what is known of the driver and of the machine's GPUs, whose
	// names are their UUIDs; nil where nothing is.
	ReadHost func(ctx context.Context) image.HostDriver
	// DevDir holds the GPU nodes as the engine's host sees them.
	DevDir string
	// Sandbox is where stdout and stderr go, HostSandbox the same folder as
	// the engine's host sees it.
	Sandbox, HostSandbox string
	// Logs bound stdout and stderr.
	Logs rotate.RotationLimits
	// DockerConfig is the operator's docker config.json with the registries'
	// credentials, empty for none. The sandbox's own goes before it.
	DockerConfig string
	// AllowHostIPC allows tasks to share the host's memory segments and semaphores.
	AllowHostIPC bool
	// LocksDir is the agent's folder of claims; see Sweep. Where it cannot be
	// written the task runs all the same, and the log says what that means.
	LocksDir string
	Log      logrus.FieldLogger

	procDir string // /proc, but in tests
}

const (
	// pingTimeout is for an engine that is there but hangs.
	pingTimeout = 10 * time.Second
	// stepTimeout bounds creating, starting and removing a container.
	stepTimeout = 2 * time.Minute
)

// Start implements task.Runtime.
func (d *EngineRuntime) Start(ctx context.Context, t task.TaskSpec) (task.RunningTask, error) {
	engine, err := d.NewClient()
	if err != nil {
		return nil, fmt.Errorf("docker engine: %w", err)
	}
	r, err := d.startContainer(ctx, engine, t)
	if err != nil {
		engine.Close()
		return nil, err
	}
	return r, nil
}

func (d *EngineRuntime) startContainer(ctx context.Context, engine *client.Client, t task.TaskSpec) (*runningContainer, error) {
	if err := pingEngine(ctx, engine); err != nil {
		return nil, err
	}
	img, err := d.ensureImage(ctx, engine, t)
	if err != nil {
		return nil, err
	}
	f, err := d.gatherHostInfo(ctx, t, img)
	if err != nil {
		return nil, err
	}
	// From here on the engine may hold something of ours. A call that ctx
	// cuts off may still take effect there, after we have cleaned up: so
	// these calls are not cut off, and ctx is heard between them.
	steps, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	r := &runningContainer{engine: engine, name: containerName(t), task: t, procDir: cmp.Or(d.procDir, "/proc"), sandbox: d.Sandbox, logs: d.Logs, log: d.Log.WithField("container", containerName(t))}
	r.containerLock, err = lockContainer(d.LocksDir, r.name, engine.DaemonHost())
	if err != nil {
		r.log.WithError(err).Warn("nobody will remove this container if the executor is killed")
	}
	if err = d.createContainer(ctx, steps, r, f); err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = r.startProcess(steps)
	}
	if err == nil {
		return r, nil
	}
	if e := r.removeContainer(); e != nil {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return nil, err
}

// createContainer makes the container. An image that went away since it was looked at
// is fetched once more.
func (d *EngineRuntime) createContainer(ctx, steps context.Context, r *runningContainer, f hostInfo) error {
	s, err := newContainerSpec(r.task, f)
	if err != nil {
		return err
	}
	try := func() error {
		created, err := r.engine.ContainerCreate(steps, s.config, s.host, s.network, nil, r.name)
		r.id = created.ID
		return err
	}
	err = try()
	if errdefs.IsNotFound(err) {
		if _, err := d.ensureImage(ctx, r.engine, r.task); err != nil {
			return err
		}
		err = try()
	}
	if err != nil {
		return fmt.Errorf("create container of image %s: %w", r.task.Image, err)
	}
	return nil
}

func pingEngine(ctx context.Context, engine *client.Client) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := engine.Ping(ctx)
	if err != nil && strings.Contains(err.Error(), "permission denied") { // the client wraps no errno
		return fmt.Errorf("docker engine at %s: %w: add the executor's user to the docker group, or use container: mesos", engine.DaemonHost(), err)
	}
	if err != nil {
		return fmt.Errorf("docker engine at %s does not answer: %w: start dockerd or use container: mesos", engine.DaemonHost(), err)
	}
	return nil
}

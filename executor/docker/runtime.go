// Package docker runs a task in a container of the Docker engine, through the
// engine's API. It decides what a container gets: the device nodes of exactly
// the granted GPUs, and the driver volume if the image needs it. It never runs
// a container privileged, and environment variables never choose its devices.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/rotate"
	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// EngineRuntime implements task.Runtime.
type EngineRuntime struct {
	// NewClient returns a client of the engine.
	NewClient func() (*client.Client, error)
	// PrepareVolume returns the driver volume's path on the host.
	PrepareVolume func(ctx context.Context) (string, error)
	// ReadHost returns the driver and the GPUs of the machine, named by their
	// UUIDs; nil if they are unknown.
	ReadHost func(ctx context.Context) image.HostDriver
	// DevDir has the GPU device nodes, as a path on the engine's host.
	DevDir string
	// Sandbox is the folder for stdout and stderr, HostSandbox the same folder
	// as a path on the engine's host.
	Sandbox, HostSandbox string
	// Logs limits the size of stdout and stderr.
	Logs rotate.RotationLimits
	// DockerConfig is the operator's docker config.json with registry
	// credentials; empty if none exists. Files in the sandbox have
	// precedence.
	DockerConfig string
	// AllowHostIPC allows tasks to use the host's IPC namespace.
	AllowHostIPC bool
	// AllowedDevices are device nodes, or folders of them, that tasks may open besides their GPUs.
	AllowedDevices []string
	// LocksDir is the agent's folder of container locks, see RemoveOrphans. If
	// it is not writable, the task still runs, and a warning is logged.
	LocksDir string
	Log      logrus.FieldLogger

	procDir string // /proc, except in tests
}

const (
	// pingTimeout bounds the first call to an engine that may hang.
	pingTimeout = 10 * time.Second
	// stepTimeout bounds the creation of a container, and its start.
	stepTimeout = 2 * time.Minute
)

// Start implements task.Runtime.
func (rt *EngineRuntime) Start(ctx context.Context, t task.TaskSpec) (task.RunningTask, error) {
	engine, err := rt.NewClient()
	if err != nil {
		return nil, fmt.Errorf("docker engine: %w", err)
	}
	r, err := rt.startContainer(ctx, engine, t)
	if err != nil {
		engine.Close()
		return nil, err
	}
	return r, nil
}

func (rt *EngineRuntime) startContainer(ctx context.Context, engine *client.Client, t task.TaskSpec) (*runningContainer, error) {
	if err := pingEngine(ctx, engine); err != nil {
		return nil, err
	}
	img, err := rt.ensureImage(ctx, engine, t)
	if err != nil {
		return nil, asEngineFault(err)
	}
	f, err := rt.gatherHostInfo(ctx, t, img)
	if err != nil {
		return nil, err
	}
	// From here on the engine may have a container to remove.
	r := &runningContainer{
		engine:  engine,
		name:    containerName(t),
		task:    t,
		procDir: cmp.Or(rt.procDir, "/proc"),
		sandbox: rt.Sandbox,
		logs:    rt.Logs,
		log:     rt.Log.WithField("container", containerName(t)),
	}
	r.containerLock, err = lockContainer(rt.LocksDir, r.name, engine.DaemonHost())
	if err != nil {
		r.log.WithError(err).Warn("cannot lock the container: it is not removed if the executor is killed")
	}
	if err = asEngineFault(rt.createContainer(ctx, r, f)); err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = runStep(ctx, r.startProcess)
	}
	if err == nil {
		return r, nil
	}
	if e := r.removeContainer(); e != nil {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return nil, err
}

// runStep runs a step of a start within stepTimeout. A call that the end of ctx
// cuts off could still take effect after the cleanup. So the step runs to its
// end, and the caller checks ctx between steps.
func runStep(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	return step(ctx)
}

// createContainer creates the container. If the image was removed after
// ensureImage, it is pulled once more.
func (rt *EngineRuntime) createContainer(ctx context.Context, r *runningContainer, f hostInfo) error {
	s, err := newContainerSpec(r.task, f)
	if err != nil {
		return err
	}
	if u := r.task.HostUser; u != nil {
		if err := giveSandbox(rt.Sandbox, u); err != nil {
			return err
		}
	} else if s.config.WorkingDir == sandboxInside { // the image's user may not be the executor's
		if err := task.AllowTraversal(rt.Sandbox); err != nil {
			return err
		}
	}
	try := func(ctx context.Context) error {
		r.newVolumes = findNewVolumes(ctx, r.engine, s.host.Binds)
		created, err := r.engine.ContainerCreate(ctx, s.config, s.host, s.network, nil, r.name)
		r.id = created.ID
		return err
	}
	err = runStep(ctx, try)
	if errdefs.IsNotFound(err) {
		if _, err := rt.ensureImage(ctx, r.engine, r.task); err != nil {
			return err
		}
		err = runStep(ctx, try)
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
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("docker engine at %s: %w: add the executor's user to the docker group, or use container: mesos", engine.DaemonHost(), err)
	}
	if err != nil {
		err = fmt.Errorf("docker engine at %s does not answer: %w: start dockerd or use container: mesos", engine.DaemonHost(), err)
		return &task.MachineFaultError{Fault: job.NoEngine, Err: err}
	}
	return nil
}

// asEngineFault returns the failure of a call before the task's process as a fault of the machine, if the engine did not answer it.
func asEngineFault(err error) error {
	if client.IsErrConnectionFailed(err) {
		return &task.MachineFaultError{Fault: job.NoEngine, Err: err}
	}
	return err
}

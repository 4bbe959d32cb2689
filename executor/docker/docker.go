// Package docker runs a task in a container of the Docker engine, through the
// engine's API. It decides what a container gets: the GPU nodes that the
// executor was granted, one by one, and the driver's volume where the image
// asks for it. It never makes a container privileged and never leaves the
// choice of devices to an environment variable.
package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/task"
)

// Runtime implements task.Runtime.
type Runtime struct {
	// Client makes a client of the engine.
	Client func() (*client.Client, error)
	// Volume returns the driver volume's host path.
	Volume func(ctx context.Context) (string, error)
	// DevDir holds the GPU nodes as the engine's host sees them.
	DevDir string
	// Sandbox is where stdout and stderr go, HostSandbox the same folder as
	// the engine's host sees it.
	Sandbox, HostSandbox string
	Log                  logrus.FieldLogger
}

const (
	// pingTimeout is for an engine that is there but hangs.
	pingTimeout = 10 * time.Second
	// stepTimeout bounds creating, starting and removing a container.
	stepTimeout = 2 * time.Minute
)

// Start implements task.Runtime.
func (d *Runtime) Start(ctx context.Context, t task.Task) (task.Running, error) {
	engine, err := d.Client()
	if err != nil {
		return nil, fmt.Errorf("docker engine: %w", err)
	}
	r, err := d.start(ctx, engine, t)
	if err != nil {
		engine.Close()
		return nil, err
	}
	return r, nil
}

func (d *Runtime) start(ctx context.Context, engine *client.Client, t task.Task) (*running, error) {
	if err := ping(ctx, engine); err != nil {
		return nil, err
	}
	img, err := d.inspect(ctx, engine, t.Launch.Image)
	if err != nil {
		return nil, err
	}
	f, err := d.facts(ctx, t, img)
	if err != nil {
		return nil, err
	}
	// From here on the engine may hold something of ours. A call that ctx
	// cuts off may still take effect there, after we have cleaned up: so
	// these calls are not cut off, and ctx is heard between them.
	steps, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	config, host := containerConfig(t, f), hostConfig(t, f)
	created, err := engine.ContainerCreate(steps, config, host, &network.NetworkingConfig{}, nil, containerName(t))
	if err != nil {
		return nil, fmt.Errorf("create container of image %s: %w", t.Launch.Image, err)
	}
	r := &running{engine: engine, id: created.ID, name: containerName(t), task: t, log: d.Log.WithField("container", containerName(t))}
	if err = ctx.Err(); err == nil {
		err = r.start(steps, d.Sandbox)
	}
	if err == nil {
		return r, nil
	}
	if e := r.remove(); e != nil {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return nil, err
}

func ping(ctx context.Context, engine *client.Client) error {
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

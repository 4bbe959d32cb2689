package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/docker/docker/api/types/container"
)

// Described implements task.Described: what `docker inspect` prints, and the
// container's addresses in networks of its own.
func (r *running) Described() (data []byte, addresses []string) { return r.data, r.addresses }

// describe asks the engine once the container runs. Not to know it is no
// reason to end the task.
func (r *running) describe(ctx context.Context) {
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
		r.probeAt = "127.0.0.1"
	} else if len(r.addresses) > 0 {
		r.probeAt = r.addresses[0]
	}
}

// Address implements task.Probed.
func (r *running) Address() string { return r.probeAt }

// Exec implements task.Probed: docker exec. The engine cannot end a command
// that outlasts ctx; it goes with its container.
func (r *running) Exec(ctx context.Context, argv []string, env map[string]string) (code int, err error) {
	options := container.ExecOptions{Cmd: argv, AttachStdout: true, AttachStderr: true}
	for name, value := range env {
		options.Env = append(options.Env, name+"="+value)
	}
	created, err := r.engine.ContainerExecCreate(ctx, r.id, options)
	if err != nil {
		return 0, fmt.Errorf("make command in container %s: %w", r.name, err)
	}
	conn, err := r.engine.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return 0, fmt.Errorf("start command in container %s: %w", r.name, err)
	}
	stop := context.AfterFunc(ctx, conn.Close)
	defer conn.Close()
	_, err = io.Copy(io.Discard, conn.Reader)
	if !stop() {
		return 0, errors.New("command did not end in time")
	}
	if err != nil {
		return 0, fmt.Errorf("read from command in container %s: %w", r.name, err)
	}
	ended, err := r.engine.ContainerExecInspect(ctx, created.ID)
	if err != nil {
		return 0, fmt.Errorf("inspect command in container %s: %w", r.name, err)
	}
	return ended.ExitCode, nil
}

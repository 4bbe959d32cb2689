package docker

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/task"
)

const (
	// drainTimeout is for output that is still on its way when the container
	// has ended; removeTimeout for an engine that restarts just then.
	drainTimeout  = 10 * time.Second
	removeTimeout = 30 * time.Second
	removeAgain   = time.Second
	// oomTimeout is for the engine to learn why the kernel killed a container:
	// it may know of the exit first.
	oomTimeout = 2 * time.Second
	oomAgain   = 100 * time.Millisecond
)

// running is a started container. It implements task.Running.
type running struct {
	engine   *client.Client
	id, name string
	task     task.Task
	log      logrus.FieldLogger

	exit    <-chan container.WaitResponse
	failed  <-chan error
	release context.CancelFunc // ends the engine's wait
	output  *output
	killed  atomic.Bool // by this executor
}

// start attaches to the output and to the end before it starts the process,
// so that neither is missed.
func (r *running) start(ctx context.Context, sandbox string) error {
	out, err := attach(ctx, r.engine, r.id, sandbox, r.log)
	if err != nil {
		return err
	}
	wait, release := context.WithCancel(context.WithoutCancel(ctx))
	r.exit, r.failed = r.engine.ContainerWait(wait, r.id, container.WaitConditionNextExit)
	if err := r.engine.ContainerStart(ctx, r.id, container.StartOptions{}); err != nil {
		release()
		out.close()
		return fmt.Errorf("start container of image %s: %w", r.task.Launch.Image, err)
	}
	r.output, r.release = out, release
	return nil
}

// Wait implements task.Running.
func (r *running) Wait(ctx context.Context) (task.Exit, error) {
	defer r.engine.Close()
	defer r.release()
	exit, err := r.wait(ctx)
	if err == nil {
		r.output.drain(drainTimeout)
		r.explain(&exit)
	}
	if e := r.remove(); e != nil {
		// The container may hold GPUs still: that is what people must know.
		err = fmt.Errorf("%s; %w", ending(exit, err), e)
	}
	r.output.close()
	return exit, err
}

func ending(exit task.Exit, err error) string {
	if err != nil {
		return err.Error()
	}
	return exit.String()
}

func (r *running) wait(ctx context.Context) (task.Exit, error) {
	select {
	case answer := <-r.exit:
		exit := task.ExitOfShell(int(answer.StatusCode))
		if answer.Error != nil {
			exit.Message = answer.Error.Message
		}
		return exit, nil
	case err := <-r.failed:
		return task.Exit{}, fmt.Errorf("docker engine at %s went away while container %s ran: %w: see why dockerd stopped on this agent, then submit the task again", r.engine.DaemonHost(), r.name, err)
	case <-ctx.Done():
		return task.Exit{}, fmt.Errorf("container %s was removed: %w", r.name, context.Cause(ctx))
	}
}

// explain adds that the kernel ended the container for its memory.
func (r *running) explain(exit *task.Exit) {
	if !r.oomKilled(exit.Signal == syscall.SIGKILL && !r.killed.Load()) {
		return
	}
	exit.Message = fmt.Sprintf("out of memory: the limit is %d MiB", memoryLimit(r.task)/mib)
	exit.Reason = mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum()
}

// oomKilled asks the engine, and where a kill wants an explanation asks again
// for a while.
func (r *running) oomKilled(unexplained bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), oomTimeout)
	defer cancel()
	for {
		c, err := r.engine.ContainerInspect(ctx, r.id)
		if err != nil || c.State == nil {
			return false
		}
		if c.State.OOMKilled || !unexplained {
			return c.State.OOMKilled
		}
		select {
		case <-time.After(oomAgain):
		case <-ctx.Done():
			return false
		}
	}
}

// Signal implements task.Running.
func (r *running) Signal(ctx context.Context, sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		r.killed.Store(true)
	}
	err := r.engine.ContainerKill(ctx, r.id, fmt.Sprint(int(sig)))
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return fmt.Errorf("send signal %d to container %s: %w", int(sig), r.name, err)
	}
	return nil
}

// remove takes the container away, running or not. A container left behind
// would hold GPUs that its agent takes for free, so an engine that does not
// answer is asked again for a while.
func (r *running) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	for {
		err := r.engine.ContainerRemove(ctx, r.id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil, errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err):
			// The engine is removing it already.
		case !client.IsErrConnectionFailed(err):
			return fmt.Errorf("remove container %s: %w: docker rm -f %s", r.name, err, r.name)
		}
		select {
		case <-time.After(removeAgain):
		case <-ctx.Done():
			return fmt.Errorf("remove container %s: the engine did not answer for %s: docker rm -f %s", r.name, removeTimeout, r.name)
		}
	}
}

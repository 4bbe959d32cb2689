package docker

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/executor/rotate"
	"mesos-gpu/executor/task"
)

const (
	// drainTimeout is for output that is still on its way when the container
	// has ended; removeTimeout for an engine that restarts just then.
	drainTimeout  = 10 * time.Second
	removeTimeout = 30 * time.Second
	removeAgain   = time.Second
)

// running is a started container. It implements task.Running.
type running struct {
	engine   *client.Client
	id, name string
	task     task.Task
	sandbox  string
	logs     rotate.Limits
	claim    *claim
	began    time.Time
	// What describe found.
	data      []byte
	addresses []string
	probeAt   string
	log       logrus.FieldLogger

	exit     <-chan container.WaitResponse
	failed   <-chan error
	release  context.CancelFunc // ends the engine's wait
	output   *output
	killed   atomic.Bool // by this executor
	signaled atomic.Bool // with whatever signal
	// died says that the engine went away and came back without the process.
	died bool

	guard *guard // ends sessions' commands
	proc  string // where their processes are seen

	leftMu sync.Mutex
	left   []string // the ids of commands that outlasted their time
}

// start attaches to the output and to the end before it starts the process,
// so that neither is missed.
func (r *running) start(ctx context.Context) error {
	out, err := r.openOutput(ctx)
	if err != nil {
		return err
	}
	r.output, r.began = out, time.Now()
	r.await(ctx, container.WaitConditionNextExit)
	// Before the task begins, which might take the guard's address.
	if r.guard, err = newGuard(r); err != nil {
		r.log.WithError(err).Warn("no command can be run beside this task")
	}
	if err := r.engine.ContainerStart(ctx, r.id, container.StartOptions{}); err != nil {
		r.guard.close()
		r.release()
		r.closeOutput()
		return fmt.Errorf("start container of image %s: %w", r.task.Image, err)
	}
	r.describe(ctx)
	return nil
}

// await has the engine tell the container's end.
func (r *running) await(ctx context.Context, condition container.WaitCondition) {
	ctx, r.release = context.WithCancel(context.WithoutCancel(ctx))
	r.exit, r.failed = r.engine.ContainerWait(ctx, r.id, condition)
}

// Wait implements task.Running.
func (r *running) Wait(ctx context.Context) (task.Exit, error) {
	defer r.engine.Close()
	defer r.guard.close()
	exit, err := r.wait(ctx)
	r.release()
	if err == nil {
		r.output.drain(drainTimeout)
		r.explain(&exit)
	}
	if e := r.remove(); e != nil {
		// The container may hold GPUs still: that is what people must know.
		err = fmt.Errorf("%s; %w", ending(exit, err), e)
	}
	r.closeOutput()
	return exit, err
}

func ending(exit task.Exit, err error) string {
	if err != nil {
		return err.Error()
	}
	return exit.String()
}

// wait follows the container over restarts of the engine.
func (r *running) wait(ctx context.Context) (task.Exit, error) {
	for {
		select {
		case answer := <-r.exit:
			exit := task.ExitOfShell(int(answer.StatusCode))
			if answer.Error != nil {
				exit.Message = answer.Error.Message
			}
			return exit, nil
		case err := <-r.failed:
			if err := r.reconnect(ctx, err); err != nil {
				return task.Exit{}, err
			}
		case <-ctx.Done():
			return task.Exit{}, r.givenUp(ctx)
		}
	}
}

func (r *running) givenUp(ctx context.Context) error {
	return fmt.Errorf("container %s was removed: %w", r.name, context.Cause(ctx))
}

// explain adds why the process ended, where it did not end by itself and not
// by this executor. An engine that stops stops its containers first, as a
// person would.
func (r *running) explain(exit *task.Exit) {
	why := r.whyEnded(exit.Signal == syscall.SIGKILL && !r.killed.Load() && !r.died)
	engine, ours := r.engine.DaemonHost(), r.signaled.Load()
	switch {
	case why.oom:
		exit.Message = fmt.Sprintf("out of memory: the limit is %d MiB", memoryLimit(r.task)/mib)
		exit.Reason = mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum()
	case r.died:
		exit.Message = fmt.Sprintf("the docker engine at %s restarted while it ran", engine)
	case ours:
	case why.gone:
		exit.Message = fmt.Sprintf("the docker engine at %s stopped, and its containers with it", engine)
	case why.signal != "":
		exit.Message = fmt.Sprintf("the docker engine sent it signal %s: somebody stopped the container, or the engine", why.signal)
	}
}

// Signal implements task.Running.
func (r *running) Signal(ctx context.Context, sig syscall.Signal) error {
	r.signaled.Store(true)
	if sig == syscall.SIGKILL {
		r.killed.Store(true)
	}
	err := r.engine.ContainerKill(ctx, r.id, fmt.Sprint(int(sig)))
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return fmt.Errorf("send signal %d to container %s: %w", int(sig), r.name, err)
	}
	return nil
}

// remove takes the container away, running or not. A claim stays where that
// cannot be done, for the next sweep.
func (r *running) remove() error {
	if err := remove(context.Background(), r.engine, r.name); err != nil {
		r.claim.keep()
		return err
	}
	r.claim.release()
	return nil
}

// remove takes a container away, running or not. A container left behind
// would hold GPUs that its agent takes for free, so an engine that does not
// answer is asked again for a while.
func remove(ctx context.Context, engine *client.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		err := engine.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil, errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err):
			// The engine is removing it already.
		case !client.IsErrConnectionFailed(err):
			return fmt.Errorf("remove container %s: %w: docker rm -f %s", name, err, name)
		}
		select {
		case <-time.After(removeAgain):
		case <-ctx.Done():
			return fmt.Errorf("remove container %s: the engine at %s did not answer for %s: docker rm -f %s", name, engine.DaemonHost(), removeTimeout, name)
		}
	}
}

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
	drainTimeout        = 10 * time.Second
	removeTimeout       = 30 * time.Second
	removeRetryInterval = time.Second
)

// runningContainer is a started container. It implements task.RunningTask.
type runningContainer struct {
	engine        *client.Client
	id, name      string
	task          task.TaskSpec
	sandbox       string
	logs          rotate.RotationLimits
	containerLock *containerLock
	startedAt     time.Time
	// What describe found.
	data         []byte
	addresses    []string
	probeAddress string
	log          logrus.FieldLogger

	exit       <-chan container.WaitResponse
	waitFailed <-chan error
	cancelWait context.CancelFunc // ends the engine's wait
	output     *containerOutput
	killed     atomic.Bool // by this executor
	signaled   atomic.Bool // with whatever signal
	// engineRestarted says that the engine went away and came back without the process.
	engineRestarted bool

	watchdog *execWatchdog // ends sessions' commands
	procDir  string        // where their processes are seen

	leftMu       sync.Mutex
	leftCommands []string // the ids of commands that outlasted their time
}

// startProcess attaches to the output and to the end before it starts the process,
// so that neither is missed.
func (r *runningContainer) startProcess(ctx context.Context) error {
	out, err := r.openOutput(ctx)
	if err != nil {
		return err
	}
	r.output, r.startedAt = out, time.Now()
	r.watchExit(ctx, container.WaitConditionNextExit)
	// Before the task begins, which might take the guard's address.
	if r.watchdog, err = newExecWatchdog(r); err != nil {
		r.log.WithError(err).Warn("no command can be run beside this task")
	}
	if err := r.engine.ContainerStart(ctx, r.id, container.StartOptions{}); err != nil {
		r.watchdog.close()
		r.cancelWait()
		r.closeOutput()
		return fmt.Errorf("start container of image %s: %w", r.task.Image, err)
	}
	r.inspectStarted(ctx)
	return nil
}

// watchExit has the engine tell the container's end.
func (r *runningContainer) watchExit(ctx context.Context, condition container.WaitCondition) {
	ctx, r.cancelWait = context.WithCancel(context.WithoutCancel(ctx))
	r.exit, r.waitFailed = r.engine.ContainerWait(ctx, r.id, condition)
}

// Wait implements task.RunningTask.
func (r *runningContainer) Wait(ctx context.Context) (task.ExitStatus, error) {
	defer r.engine.Close()
	defer r.watchdog.close()
	exit, err := r.waitForExit(ctx)
	r.cancelWait()
	if err == nil {
		r.output.waitUntilCopied(drainTimeout)
		r.explainEnd(&exit)
	}
	if e := r.removeContainer(); e != nil {
		// The container may hold GPUs still: that is what people must know.
		err = fmt.Errorf("%s; %w", describeEnd(exit, err), e)
	}
	r.closeOutput()
	return exit, err
}

func describeEnd(exit task.ExitStatus, err error) string {
	if err != nil {
		return err.Error()
	}
	return exit.String()
}

// waitForExit follows the container over restarts of the engine.
func (r *runningContainer) waitForExit(ctx context.Context) (task.ExitStatus, error) {
	for {
		select {
		case answer := <-r.exit:
			exit := task.ParseShellStatus(int(answer.StatusCode))
			if answer.Error != nil {
				exit.Message = answer.Error.Message
			}
			return exit, nil
		case err := <-r.waitFailed:
			if err := r.reconnectEngine(ctx, err); err != nil {
				return task.ExitStatus{}, err
			}
		case <-ctx.Done():
			return task.ExitStatus{}, r.removedError(ctx)
		}
	}
}

func (r *runningContainer) removedError(ctx context.Context) error {
	return fmt.Errorf("container %s was removed: %w", r.name, context.Cause(ctx))
}

// explainEnd adds why the process ended, where it did not end by itself and not
// by this executor. An engine that stops stops its containers first, as a
// person would.
func (r *runningContainer) explainEnd(exit *task.ExitStatus) {
	why := r.findEndCause(exit.Signal == syscall.SIGKILL && !r.killed.Load() && !r.engineRestarted)
	engine, ours := r.engine.DaemonHost(), r.signaled.Load()
	switch {
	case why.oom:
		exit.Message = fmt.Sprintf("out of memory: the limit is %d MiB", memoryLimit(r.task)/mib)
		exit.Reason = mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum()
	case r.engineRestarted:
		exit.Message = fmt.Sprintf("the docker engine at %s restarted while it ran", engine)
	case ours:
	case why.gone:
		exit.Message = fmt.Sprintf("the docker engine at %s stopped, and its containers with it", engine)
	case why.signal != "":
		exit.Message = fmt.Sprintf("the docker engine sent it signal %s: somebody stopped the container, or the engine", why.signal)
	}
}

// Signal implements task.RunningTask.
func (r *runningContainer) Signal(ctx context.Context, sig syscall.Signal) error {
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

// removeContainer takes the container away, running or not. A claim stays where that
// cannot be done, for the next sweep.
func (r *runningContainer) removeContainer() error {
	if err := forceRemove(context.Background(), r.engine, r.name); err != nil {
		r.containerLock.unlock()
		return err
	}
	r.containerLock.removeLock()
	return nil
}

// forceRemove takes a container away, running or not. A container left behind
// would hold GPUs that its agent takes for free, so an engine that does not
// answer is asked again for a while.
func forceRemove(ctx context.Context, engine *client.Client, name string) error {
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
		case <-time.After(removeRetryInterval):
		case <-ctx.Done():
			return fmt.Errorf("remove container %s: the engine at %s did not answer for %s: docker rm -f %s", name, engine.DaemonHost(), removeTimeout, name)
		}
	}
}

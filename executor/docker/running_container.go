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
	"mesos-gpu/internal/memorycgroup"
)

const (
	// drainTimeout bounds the wait for output after the container has ended.
	// removeTimeout bounds the removal if the engine restarts at that time.
	drainTimeout        = 10 * time.Second
	removeTimeout       = 30 * time.Second
	removeRetryInterval = time.Second
)

var (
	_ task.RunningTask        = (*runningContainer)(nil)
	_ task.ProbeTarget        = (*runningContainer)(nil)
	_ task.DiskMeasurer       = (*runningContainer)(nil)
	_ task.ContainerDescriber = (*runningContainer)(nil)
)

// runningContainer is a started container.
type runningContainer struct {
	engine        *client.Client
	id, name      string
	task          task.TaskSpec
	sandbox       string
	logs          rotate.RotationLimits
	containerLock *containerLock
	// newVolumes are the named volumes that the engine creates with the container.
	newVolumes []string
	startedAt  time.Time
	// Set by inspectStarted:
	data         []byte
	addresses    []string
	probeAddress string
	log          logrus.FieldLogger

	// exit and waitFailed are the result of the engine's wait call, which
	// cancelWait ends.
	exit       <-chan container.WaitResponse
	waitFailed <-chan error
	cancelWait context.CancelFunc
	output     *containerOutput
	// signaled is set when this executor has sent any signal, killed when it
	// has sent SIGKILL. They decide who is reported as the cause of the end.
	killed   atomic.Bool
	signaled atomic.Bool
	// engineRestarted is set if the engine came back without the container's
	// process.
	engineRestarted bool

	// memory is nil if the container's cgroup is not visible or has ended.
	memory   *memorycgroup.Watcher
	watchdog *execWatchdog // ends the commands of sessions
	procDir  string        // the procfs with their processes

	leftMu       sync.Mutex
	leftCommands []string // ids of commands that outlasted their timeout
}

// startProcess attaches to the output and waits for the exit before it starts
// the process, so that it misses neither.
func (r *runningContainer) startProcess(ctx context.Context) error {
	out, err := r.openOutput(ctx)
	if err != nil {
		return err
	}
	r.output, r.startedAt = out, time.Now()
	out.reportNewVolumes(r.newVolumes)
	r.watchExit(ctx, container.WaitConditionNextExit)
	// Before the task starts, which could take the watchdog's address.
	if r.watchdog, err = newExecWatchdog(r); err != nil {
		r.log.WithError(err).Warn("cannot listen for sessions: mesos-gpu exec will fail for this task")
	}
	if err := r.engine.ContainerStart(ctx, r.id, container.StartOptions{}); err != nil {
		r.watchdog.close()
		r.cancelWait()
		r.closeOutput()
		return fmt.Errorf("start container of image %s: %w", r.task.Image, err)
	}
	r.watchMemory()
	r.inspectStarted(ctx)
	return nil
}

// watchExit starts the engine's wait call for the container's end.
func (r *runningContainer) watchExit(ctx context.Context, condition container.WaitCondition) {
	ctx, r.cancelWait = context.WithCancel(context.WithoutCancel(ctx))
	r.exit, r.waitFailed = r.engine.ContainerWait(ctx, r.id, condition)
}

// Wait implements task.RunningTask.
func (r *runningContainer) Wait(ctx context.Context) (task.ExitStatus, error) {
	defer r.engine.Close()
	defer r.watchdog.close()
	defer r.memory.Close()
	exit, err := r.waitForExit(ctx)
	r.cancelWait()
	if err == nil {
		r.output.waitUntilCopied(drainTimeout)
		r.explainEnd(&exit)
	}
	if e := r.removeContainer(); e != nil {
		// The container may still hold GPUs, so the user must see this error.
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

// waitForExit waits for the container's end across restarts of the engine.
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

// explainEnd adds the cause of an end that neither the process nor this
// executor caused. An engine that shuts down stops its containers first, like
// `docker stop`.
func (r *runningContainer) explainEnd(exit *task.ExitStatus) {
	unexplained := exit.Signal == syscall.SIGKILL && !r.killed.Load() && !r.engineRestarted
	why := r.findEndCause(unexplained)
	if unexplained && why == (endCause{}) {
		why.oom = r.memory.RanOut() // the engine reports nothing if it removes the cgroup first
	}
	engine, ours := r.engine.DaemonHost(), r.signaled.Load()
	switch {
	case why.oom:
		// The engine may have removed the cgroup before its peak was read.
		exit.Message = fmt.Sprintf("out of memory: the limit is %d MiB, and it was reached", memoryLimit(r.task)/mib)
		if u, ok := r.memory.LastUsage(); ok {
			exit.Message = "out of memory: " + u.String()
		}
		exit.Reason = mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum()
	case r.engineRestarted:
		exit.Message = fmt.Sprintf("the docker engine at %s restarted while it ran", engine)
	case ours:
	case why.gone:
		exit.Message = fmt.Sprintf("the docker engine at %s stopped, and its containers with it", engine)
	case why.signal != "":
		exit.Message = fmt.Sprintf("the docker engine sent it signal %s: the container or the engine was stopped by hand", why.signal)
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

// removeContainer removes the container, running or not. If that fails, the
// lock file stays for the next RemoveOrphans.
func (r *runningContainer) removeContainer() error {
	if err := forceRemove(context.Background(), r.engine, r.name); err != nil {
		r.containerLock.unlock()
		return err
	}
	r.containerLock.removeLock()
	return nil
}

// forceRemove removes a container, running or not. A leftover container would
// hold GPUs that the agent considers free, so it retries for removeTimeout
// while the engine is unreachable.
func forceRemove(ctx context.Context, engine *client.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	for {
		err := engine.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil, errdefs.IsNotFound(err):
			return nil
		case errdefs.IsConflict(err):
			// The engine is already removing it.
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

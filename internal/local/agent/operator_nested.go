package agent

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"golang.org/x/sys/unix"

	"mesos-gpu/internal/mesosapi"
)

func launchNestedContainer(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error) {
	c := call.LaunchNestedContainer
	if c == nil {
		return nil, 0, missingField("launch_nested_container")
	}
	return a.launchCall(ctx, c.ContainerID, nestedLaunch{command: c.Command, info: c.Container})
}

func launchContainer(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error) {
	c := call.LaunchContainer
	if c == nil {
		return nil, 0, missingField("launch_container")
	}
	return a.launchCall(ctx, c.ContainerID, nestedLaunch{command: c.Command, info: c.Container})
}

func (a *EmbeddedAgent) launchCall(ctx context.Context, id mesos.ContainerID, l nestedLaunch) (*agent.Response, int, error) {
	ids, err := containerPath(id)
	if err != nil {
		return nil, 0, mesosapi.Errorf(http.StatusBadRequest, "%v", err)
	}
	l.ids = ids
	status, err := a.launchNested(ctx, l)
	return nil, status, err
}

func waitNestedContainer(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error) {
	if call.WaitNestedContainer == nil {
		return nil, 0, missingField("wait_nested_container")
	}
	ws, err := a.waitNested(ctx, call.WaitNestedContainer.ContainerID)
	if err != nil {
		return nil, 0, err
	}
	return &agent.Response{
		Type: agent.Response_WAIT_NESTED_CONTAINER, WaitNestedContainer: &agent.Response_WaitNestedContainer{ExitStatus: &ws},
	}, 0, nil
}

func waitContainer(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error) {
	if call.WaitContainer == nil {
		return nil, 0, missingField("wait_container")
	}
	ws, err := a.waitNested(ctx, call.WaitContainer.ContainerID)
	if err != nil {
		return nil, 0, err
	}
	return &agent.Response{Type: agent.Response_WAIT_CONTAINER, WaitContainer: &agent.Response_WaitContainer{ExitStatus: &ws}}, 0, nil
}

// findNested returns a nested container by id.
func (a *EmbeddedAgent) findNested(ctx context.Context, id mesos.ContainerID) (*nestedContainer, error) {
	ids, err := containerPath(id)
	if err != nil {
		return nil, mesosapi.Errorf(http.StatusBadRequest, "%v", err)
	}
	n, err := askLoop(ctx, a.loop, func() *nestedContainer {
		_, n := a.nestedByID(ids)
		return n
	})
	if err == nil && n == nil {
		err = mesosapi.Errorf(http.StatusNotFound, "container %s cannot be found", id.Value)
	}
	return n, err
}

// waitNested waits for a nested container to end and returns its wait status.
func (a *EmbeddedAgent) waitNested(ctx context.Context, id mesos.ContainerID) (int32, error) {
	n, err := a.findNested(ctx, id)
	if err != nil {
		return 0, err
	}
	select {
	case <-n.done:
		if n.box == nil {
			return 0, mesosapi.Errorf(http.StatusNotFound, "container %s did not start", id.Value)
		}
		return int32(n.status), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func killNestedContainer(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error) {
	if call.KillNestedContainer == nil {
		return nil, 0, missingField("kill_nested_container")
	}
	return a.killCall(ctx, call.KillNestedContainer.ContainerID, call.KillNestedContainer.Signal)
}

func killContainer(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error) {
	if call.KillContainer == nil {
		return nil, 0, missingField("kill_container")
	}
	return a.killCall(ctx, call.KillContainer.ContainerID, call.KillContainer.Signal)
}

// killCall sends a signal to a nested container. The default is SIGKILL.
func (a *EmbeddedAgent) killCall(ctx context.Context, id mesos.ContainerID, signal *int32) (*agent.Response, int, error) {
	sig := unix.SIGKILL
	if signal != nil {
		sig = syscall.Signal(*signal)
	}
	if unix.SignalName(sig) == "" {
		return nil, 0, mesosapi.Errorf(http.StatusBadRequest, "there is no signal %d", int(sig))
	}
	n, err := a.findNested(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	killed, err := askLoop(ctx, a.loop, func() error {
		switch {
		case n.over:
			return mesosapi.Errorf(http.StatusNotFound, "container %s has ended already", id.Value)
		case n.box == nil && sig == unix.SIGKILL:
			n.killContainer()
			return nil
		case n.box == nil:
			return mesosapi.Errorf(http.StatusBadRequest, "container %s does not run yet", id.Value)
		}
		return n.box.Signal(sig)
	})
	if err == nil {
		err = killed
	}
	return nil, http.StatusOK, err
}

func removeNestedContainer(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error) {
	if call.RemoveNestedContainer == nil {
		return nil, 0, missingField("remove_nested_container")
	}
	return a.removeCall(ctx, call.RemoveNestedContainer.ContainerID)
}

func removeContainer(a *EmbeddedAgent, ctx context.Context, call *agent.Call) (*agent.Response, int, error) {
	if call.RemoveContainer == nil {
		return nil, 0, missingField("remove_container")
	}
	return a.removeCall(ctx, call.RemoveContainer.ContainerID)
}

// removeCall deletes a nested container that has ended, and its sandbox. As in
// Mesos, a container of a removed executor counts as removed, and an unknown or
// running container is an internal error.
func (a *EmbeddedAgent) removeCall(ctx context.Context, id mesos.ContainerID) (*agent.Response, int, error) {
	ids, err := containerPath(id)
	if err != nil {
		return nil, 0, mesosapi.Errorf(http.StatusBadRequest, "%v", err)
	}
	if len(ids) < 2 {
		return nil, 0, mesosapi.Errorf(http.StatusBadRequest, "container %s is an executor's", id.Value)
	}
	type found struct {
		sandbox string
		err     error
	}
	f, err := askLoop(ctx, a.loop, func() found {
		e, n := a.nestedByID(ids)
		switch {
		case e == nil:
			return found{}
		case n == nil:
			return found{err: fmt.Errorf("container %s does not exist", id.Value)}
		case !n.over:
			return found{err: fmt.Errorf("container %s has not ended", id.Value)}
		}
		delete(e.nested, n.containerName())
		return found{sandbox: e.sandbox}
	})
	if err == nil {
		err = f.err
	}
	if err == nil && f.sandbox != "" {
		err = removeFolder(f.sandbox, nestedFolder(ids))
	}
	return nil, http.StatusOK, err
}

// removeFolder removes a folder inside a sandbox.
func removeFolder(sandbox, folder string) error {
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return fmt.Errorf("remove sandbox: %w", err)
	}
	defer root.Close()
	if err := root.RemoveAll(filepath.Clean(folder)); err != nil {
		return fmt.Errorf("remove sandbox: %w", err)
	}
	return nil
}

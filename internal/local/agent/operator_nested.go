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

func (a *EmbeddedAgent) launchCall(ctx context.Context, id mesos.ContainerID, l nestedLaunch) (status int, err error) {
	if l.ids, err = containerPath(id); err != nil {
		return 0, mesosapi.Errorf(http.StatusBadRequest, "%v", err)
	}
	return a.launchNested(ctx, l)
}

// findNested returns a nested container by id.
func (a *EmbeddedAgent) findNested(ctx context.Context, id mesos.ContainerID) (*nestedContainer, error) {
	ids, err := containerPath(id)
	if err != nil {
		return nil, mesosapi.Errorf(http.StatusBadRequest, "%v", err)
	}
	return askLoop(ctx, a.loop, func() (*nestedContainer, error) {
		_, n := a.nestedByID(ids)
		if n == nil {
			return nil, mesosapi.Errorf(http.StatusNotFound, "container %s cannot be found", id.Value)
		}
		return n, nil
	})
}

// waitNested waits for a nested container to end and returns how it ended.
func (a *EmbeddedAgent) waitNested(ctx context.Context, id mesos.ContainerID) (*agent.Response_WaitNestedContainer, error) {
	n, err := a.findNested(ctx, id)
	if err != nil {
		return nil, err
	}
	select {
	case <-n.done.Done():
		if n.box == nil {
			return nil, mesosapi.Errorf(http.StatusNotFound, "container %s did not start", id.Value)
		}
		status := int32(n.status)
		ended := &agent.Response_WaitNestedContainer{ExitStatus: &status}
		if n.shortage != "" && status != 0 {
			ended.Reason, ended.Message = mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum(), &n.shortage
		}
		return ended, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// killNested sends a signal to a nested container. The default is SIGKILL.
func (a *EmbeddedAgent) killNested(ctx context.Context, id mesos.ContainerID, signal *int32) error {
	sig := unix.SIGKILL
	if signal != nil {
		sig = syscall.Signal(*signal)
	}
	if unix.SignalName(sig) == "" {
		return mesosapi.Errorf(http.StatusBadRequest, "there is no signal %d", int(sig))
	}
	n, err := a.findNested(ctx, id)
	if err != nil {
		return err
	}
	return doOnLoop(ctx, a.loop, func() error {
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
}

// removeNested deletes a nested container that has ended, and its sandbox. As in
// Mesos, a container of a removed executor counts as removed, and an unknown or
// running container is an internal error.
func (a *EmbeddedAgent) removeNested(ctx context.Context, id mesos.ContainerID) error {
	ids, err := containerPath(id)
	if err != nil {
		return mesosapi.Errorf(http.StatusBadRequest, "%v", err)
	}
	if len(ids) < 2 {
		return mesosapi.Errorf(http.StatusBadRequest, "container %s is an executor's", id.Value)
	}
	sandbox, err := askLoop(ctx, a.loop, func() (string, error) {
		e, n := a.nestedByID(ids)
		switch {
		case e == nil:
			return "", nil
		case n == nil:
			return "", fmt.Errorf("container %s does not exist", id.Value)
		case !n.over:
			return "", fmt.Errorf("container %s has not ended", id.Value)
		}
		delete(e.nested, n.containerName())
		n.forget()
		return e.sandbox, nil
	})
	if err != nil || sandbox == "" {
		return err
	}
	return removeFolder(sandbox, nestedFolder(ids))
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

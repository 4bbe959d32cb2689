package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/mesosapi"
)

// nestedContainer is a container below an executor's container. Its record
// remains after its end, for clients that wait for it, until a client removes
// it or its executor ends.
type nestedContainer struct {
	// ids are the ids of its ancestors, the executor's container first, and its
	// own.
	ids   []string
	image bool
	// command is the command that it runs, which sessions inside it inherit.
	// user is the user name in its request.
	command container.Command
	user    string
	// console is the agent's side of a session.
	console *sessionConsole
	// box is nil until the container runs. abort cancels the launch before
	// that.
	box   *container.RunningContainer
	abort context.CancelFunc
	// doomed means that the container is killed as soon as it runs.
	doomed bool
	// done ends when the container has ended and its cgroup is removed.
	done    context.Context
	setDone context.CancelFunc
	over    bool
	status  syscall.WaitStatus
	// shortage is why the kernel killed processes of the container, "" if it did not.
	shortage string
}

func (n *nestedContainer) killContainer() {
	n.doomed = true
	if n.box == nil {
		n.abort()
		return
	}
	n.box.Kill()
}

// forget removes the record of a container that has started.
func (n *nestedContainer) forget() {
	if n.box != nil {
		n.box.Forget()
	}
}

// containerName returns a name that is unique within the executor.
func (n *nestedContainer) containerName() string { return strings.Join(n.ids[1:], ".") }

// countNested counts the nested containers that have not ended.
func (e *executorState) countNested() int {
	count := 0
	for _, n := range e.nested {
		if !n.over {
			count++
		}
	}
	return count
}

// containerPath returns a container's ids, outermost first.
func containerPath(id mesos.ContainerID) ([]string, error) {
	var ids []string
	for c := &id; c != nil; c = c.Parent {
		if err := link.ValidateID("container id", c.Value); err != nil {
			return nil, err
		}
		if strings.ContainsAny(c.Value, ". ") {
			return nil, fmt.Errorf("container id %q has a period or a space", c.Value)
		}
		if ids = append(ids, c.Value); len(ids) > maxDepth {
			return nil, fmt.Errorf("container is nested more than %d deep", maxDepth)
		}
	}
	slices.Reverse(ids)
	return ids, nil
}

// maxDepth limits the nesting depth.
const maxDepth = 8

// byContainer returns the executor whose container has that id.
func (a *EmbeddedAgent) byContainer(id string) *executorState {
	for e := range a.liveExecutors() {
		if e.container == id {
			return e
		}
	}
	return nil
}

// nestedByID returns a nested container and its executor. The executor may
// exist without the container.
func (a *EmbeddedAgent) nestedByID(ids []string) (*executorState, *nestedContainer) {
	e := a.byContainer(ids[0])
	if e == nil {
		return nil, nil
	}
	return e, e.nested[strings.Join(ids[1:], ".")]
}

// nestedFolder returns a nested container's folder in its executor's sandbox.
func nestedFolder(ids []string) string {
	folder := "."
	for _, id := range ids[1:] {
		folder = path.Join(folder, "containers", id)
	}
	return folder
}

// launchNested starts a container below another. It returns the HTTP status:
// 200, 202 if the container already exists, or 400.
func (a *EmbeddedAgent) launchNested(ctx context.Context, l nestedLaunch) (int, error) {
	// The result is nil if the container already exists.
	result, err := askLoop(ctx, a.loop, func() (<-chan error, error) {
		e, parent, err := a.parentOf(l.ids)
		switch {
		case err != nil:
			return nil, err
		case l.session && parent == nil:
			l.beside = &nestedContainer{box: e.box, command: e.command}
		case l.session:
			l.beside = parent
		case parent != nil && parent.image:
			return nil, mesosapi.Errorf(http.StatusBadRequest, "parent container %s has an image: this agent nests none in those", strings.Join(parent.ids, "."))
		}
		if e.nested[strings.Join(l.ids[1:], ".")] != nil {
			return nil, nil
		}
		return a.startNested(e, l), nil
	})
	switch {
	case err != nil:
		return 0, err
	case result == nil:
		return http.StatusAccepted, nil
	}
	// The container starts even if the caller disconnects.
	if err := <-result; err != nil {
		return 0, mesosapi.Errorf(http.StatusBadRequest, "launch container %s: %v", strings.Join(l.ids, "."), err)
	}
	return http.StatusOK, nil
}

// parentOf returns the executor and, if the parent is a nested container, that
// container.
func (a *EmbeddedAgent) parentOf(ids []string) (*executorState, *nestedContainer, error) {
	if len(ids) < 2 {
		return nil, nil, mesosapi.Errorf(http.StatusBadRequest, "container %s has no parent: this agent launches none of its own", ids[0])
	}
	e := a.byContainer(ids[0])
	switch {
	case e == nil:
		return nil, nil, mesosapi.Errorf(http.StatusBadRequest, "parent container %s does not exist", ids[0])
	case e.box == nil || e.exited:
		return nil, nil, mesosapi.Errorf(http.StatusBadRequest, "parent container %s does not run", ids[0])
	case len(ids) == 2:
		return e, nil, nil
	}
	parent := e.nested[strings.Join(ids[1:len(ids)-1], ".")]
	if parent == nil || parent.box == nil || parent.over {
		return nil, nil, mesosapi.Errorf(http.StatusBadRequest, "parent container %s does not run", strings.Join(ids[:len(ids)-1], "."))
	}
	return e, parent, nil
}

// startNested launches outside the loop and sends the result on the channel.
func (a *EmbeddedAgent) startNested(e *executorState, l nestedLaunch) <-chan error {
	result := make(chan error, 1)
	ctx, abort := context.WithCancel(a.background())
	n := &nestedContainer{
		ids: l.ids, image: l.info.GetMesos().GetImage() != nil, user: l.command.GetUser(), console: l.console,
		abort: abort,
	}
	n.done, n.setDone = context.WithCancel(context.Background())
	e.nested[n.containerName()] = n
	if !l.session {
		a.saveExecutor(e)
	}
	l.parent, l.sandbox, l.grant, l.executor, l.fetchHosts = e.box, e.sandbox, e.grant, e.id(), fetchHostsOf(e.info)
	a.runInBackground(func(context.Context) func() {
		defer abort()
		box, command, err := a.makeNested(ctx, l)
		return func() {
			if n.command = command; err == nil && !l.session {
				a.saveExecutor(e)
			}
			if err != nil {
				n.over = true
				n.setDone()
				delete(e.nested, n.containerName())
				err = errors.Join(err, a.dropRun(l.ids))
				a.removeContainer(e)
			} else {
				a.nestedStarted(e, n, box)
			}
			result <- err
		}
	})
	return result
}

func (a *EmbeddedAgent) nestedStarted(e *executorState, n *nestedContainer, box *container.RunningContainer) {
	n.box = box
	if n.doomed || e.exited {
		box.Kill()
	}
	outer := e.box // it has the limit of both
	a.runInBackground(func(context.Context) func() {
		<-box.Exited()
		shortage := ""
		if box.MemoryUsage().OOMKills > 0 {
			shortage = fmt.Sprintf("out of memory: %s, with the executor", outer.MemoryUsage())
		}
		err := errors.Join(box.RemoveCgroup(), a.dropRun(n.ids))
		return func() {
			if err != nil {
				a.cfg.Log.WithFields(e.logFields()).WithField("nested", n.containerName()).WithError(err).Error("cannot clear up after a nested container")
			}
			n.over, n.status, n.shortage = true, box.WaitStatus(), shortage
			n.setDone()
			a.endBelow(e, n)
			a.removeContainer(e)
		}
	})
}

// endBelow kills the nested containers of a container that has ended.
func (a *EmbeddedAgent) endBelow(e *executorState, n *nestedContainer) {
	for name, other := range e.nested {
		if strings.HasPrefix(name, n.containerName()+".") && !other.over {
			other.killContainer()
		}
	}
}

// runDir returns the folder with the bundle and files of a container with an
// image.
func (a *EmbeddedAgent) runDir(ids []string) string {
	return filepath.Join(a.cfg.WorkDir, runFolder, strings.Join(ids, "."))
}

// dropRun removes the files that a container with an image wrote outside its
// sandbox.
func (a *EmbeddedAgent) dropRun(ids []string) error {
	if err := os.RemoveAll(a.runDir(ids)); err != nil {
		return fmt.Errorf("remove container's files: %w", err)
	}
	return nil
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/fetch"
	"mesos-gpu/internal/local/agent/oci"
)

// maxID bounds the ids that become names of folders.
const maxID = 242

// checkID refuses an id that cannot be a folder's name.
func checkID(id string) error {
	if id == "" || len(id) > maxID || id == "." || id == ".." || strings.ContainsAny(id, "/\x00") {
		return fmt.Errorf("id %q is empty, longer than %d bytes, a period or two, or has a slash", id, maxID)
	}
	return nil
}

// launch gives tasks to their executor and starts it where it does not run.
func (a *Agent) launch(info mesos.FrameworkInfo, ex mesos.ExecutorInfo, tasks []mesos.TaskInfo, together bool) {
	id := info.GetID().GetValue()
	if err := errors.Join(checkID(id), checkID(ex.ExecutorID.Value)); err != nil {
		a.refuse(info, tasks, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, err.Error())
		return
	}
	f := a.frameworks[id]
	if f == nil {
		f = &framework{executors: map[string]*executorRun{}}
		a.frameworks[id] = f
		a.completed.dropFramework(id)
	}
	f.info = info
	e := f.executors[ex.ExecutorID.Value]
	switch {
	case f.ending:
		return
	case a.stopping:
		a.refuse(info, tasks, f.gone(), mesos.REASON_AGENT_DISCONNECTED, "The agent is stopping")
		a.tidy(f)
		return
	case e != nil && e.phase >= ending:
		a.refuse(info, tasks, f.gone(), mesos.REASON_EXECUTOR_TERMINATED, "The executor is ending")
		return
	}
	if e == nil {
		e = a.newRun(f, ex)
	}
	g := &group{together: together}
	for _, info := range tasks {
		if e.task(info.TaskID.Value) != nil {
			a.cfg.Log.WithField("task", info.TaskID.Value).Warn("ignored a launch: the executor has a task of that id")
			continue
		}
		e.tasks = append(e.tasks, &task{info: info, state: mesos.TASK_STAGING, group: g})
	}
	switch {
	case e.container == "":
		a.start(e)
	case e.phase == running:
		a.deliver(e)
	}
}

// refuse answers for tasks that get no executor.
func (a *Agent) refuse(f mesos.FrameworkInfo, tasks []mesos.TaskInfo, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) {
	for _, t := range tasks {
		a.add(*f.ID, a.status(t.TaskID, state, reason, message))
	}
}

func (a *Agent) newRun(f *framework, info mesos.ExecutorInfo) *executorRun {
	e := &executorRun{framework: f, info: info, nested: map[string]*nestedRun{}}
	e.info.FrameworkID = f.info.ID
	if info.Command == nil {
		e.info, e.supplied = supplied(e.info, a.cfg.ExecutorPath), true
	}
	f.executors[e.id()] = e
	return e
}

// start makes the executor's container, beside the loop.
func (a *Agent) start(e *executorRun) {
	e.container = uuid.NewString()
	e.sandbox = filepath.Join(runsDir(a.cfg.WorkDir, a.info.ID.Value, e.framework.id(), e.id()), e.container)
	for _, t := range e.tasks {
		t.ready = true
	}
	resources, others := e.resources(), a.others(e)
	spec, err := a.executorSpec(e, resources)
	uris := e.info.Command.URIs
	e.command = spec.Command
	a.cfg.Log.WithFields(e.fields()).Info("starting executor")
	ctx, abort := context.WithCancel(a.background())
	e.abort = abort
	a.work(func(context.Context) func() {
		defer abort()
		var box *container.Container
		var granted granting
		if err == nil {
			err = a.providers.Publish(ctx, resources, others)
		}
		if err == nil {
			granted, err = a.prepareGrant(e.container, resources)
		}
		if err == nil {
			box, err = a.launchExecutor(ctx, e.sandbox, uris, spec, granted)
		}
		return func() { a.started(e, box, granted, err) }
	})
	a.after(a.cfg.RegistrationTimeout, func() { a.registrationTimeout(e) })
}

// executorSpec describes the executor's container, but for its output files
// and devices.
func (a *Agent) executorSpec(e *executorRun, resources []mesos.Resource) (container.Spec, error) {
	if err := supportedExecutor(e.info); err != nil {
		return container.Spec{}, err
	}
	args, err := oci.Argv(e.info.Command)
	if err != nil {
		return container.Spec{}, err
	}
	env, err := executorEnvironment(&a.cfg, a.info.ID.Value, e.sandbox, e)
	if err != nil {
		return container.Spec{}, err
	}
	user, err := a.user(e.info.Command.GetUser(), e.framework.info.User)
	if err != nil {
		return container.Spec{}, err
	}
	limits := limits(resources)
	if e.supplied {
		// What Mesos adds for the executor of a task that brings none.
		limits.CPUs += 0.1
		limits.MemBytes += 32 << 20
	}
	return container.Spec{
		ID: []string{e.container}, Limits: limits,
		Command: container.Command{Path: args[0], Args: args, Env: env, Dir: e.sandbox, User: user},
	}, nil
}

// supportedExecutor refuses what this agent would have to leave out.
func supportedExecutor(info mesos.ExecutorInfo) error {
	if info.Container != nil {
		return fmt.Errorf("executor %s wants a container of its own; this agent runs executors in its own file system", info.ExecutorID.Value)
	}
	return nil
}

// launchExecutor makes the sandbox, fetches into it and starts the container.
func (a *Agent) launchExecutor(ctx context.Context, sandbox string, uris []mesos.CommandInfo_URI, s container.Spec, g granting) (*container.Container, error) {
	if err := os.MkdirAll(filepath.Dir(sandbox), 0o755); err != nil {
		return nil, fmt.Errorf("make sandbox: %w", err)
	}
	if err := os.Mkdir(sandbox, 0o750); err != nil {
		return nil, fmt.Errorf("make sandbox: %w", err)
	}
	if err := linkLatest(sandbox); err != nil {
		return nil, err
	}
	out, err := openOutput(sandbox, ".", s.Command.User)
	if err != nil {
		return nil, err
	}
	defer out.close()
	if err := fetch.All(ctx, sandbox, ".", uris, ownerOf(s.Command.User)); err != nil {
		return nil, err
	}
	s.Stdout, s.Stderr = out.stdout, out.stderr
	s.Nodes, s.Isolate = g.grant.Nodes, g.isolate
	return a.engine.Launch(ctx, s)
}

// ownerOf is who has a user's files.
func ownerOf(u *container.User) *fetch.Owner {
	if u == nil {
		return nil
	}
	return &fetch.Owner{UID: int(u.UID), GID: int(u.GID)}
}

// linkLatest makes latest name the sandbox.
func linkLatest(sandbox string) error {
	latest := filepath.Join(filepath.Dir(sandbox), "latest")
	staged := latest + ".new"
	if err := os.Remove(staged); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("link latest run: %w", err)
	}
	if err := os.Symlink(sandbox, staged); err != nil {
		return fmt.Errorf("link latest run: %w", err)
	}
	if err := os.Rename(staged, latest); err != nil {
		return fmt.Errorf("link latest run: %w", err)
	}
	return nil
}

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

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/fetch"
	"mesos-gpu/internal/local/agent/oci"
)

// maxID is the maximum length of ids that become folder names.
const maxID = 242

// checkID rejects an id that is not a valid folder name.
func checkID(id string) error {
	if id == "" || len(id) > maxID || id == "." || id == ".." || strings.ContainsAny(id, "/\x00") {
		return fmt.Errorf("id %q is empty, longer than %d bytes, a period or two, or has a slash", id, maxID)
	}
	return nil
}

// launchTasks assigns tasks to their executor and starts the executor if
// necessary.
func (a *EmbeddedAgent) launchTasks(info mesos.FrameworkInfo, ex mesos.ExecutorInfo, tasks []mesos.TaskInfo, together bool) {
	id := info.GetID().GetValue()
	if err := errors.Join(checkID(id), checkID(ex.ExecutorID.Value)); err != nil {
		a.refuseTasks(info, tasks, mesos.TASK_ERROR, mesos.REASON_TASK_INVALID, err.Error())
		return
	}
	f := a.frameworks[id]
	if f == nil {
		f = &frameworkState{executors: map[string]*executorState{}}
		a.frameworks[id] = f
		a.completed.dropFramework(id)
	}
	f.info = info
	e := f.executors[ex.ExecutorID.Value]
	switch {
	case f.ending:
		return
	case a.stopping:
		a.refuseTasks(info, tasks, f.missingTaskState(), mesos.REASON_AGENT_DISCONNECTED, "The agent is stopping")
		a.forgetFramework(f)
		return
	case e != nil && e.phase >= ending:
		a.refuseTasks(info, tasks, f.missingTaskState(), mesos.REASON_EXECUTOR_TERMINATED, "The executor is ending")
		return
	}
	if e == nil {
		e = a.newRun(f, ex)
	}
	g := &taskGroup{together: together}
	for _, info := range tasks {
		if e.findTask(info.TaskID.Value) != nil {
			a.cfg.Log.WithField("task", info.TaskID.Value).Warn("ignored a launch: the executor has a task of that id")
			continue
		}
		e.tasks = append(e.tasks, &taskState{info: info, state: mesos.TASK_STAGING, group: g})
	}
	switch {
	case e.container == "":
		a.startExecutor(e)
	case e.phase == running:
		a.deliverTasks(e)
	}
}

// refuseTasks reports a terminal status for tasks whose executor cannot start.
func (a *EmbeddedAgent) refuseTasks(f mesos.FrameworkInfo, tasks []mesos.TaskInfo, state mesos.TaskState, reason mesos.TaskStatus_Reason, message string) {
	for _, t := range tasks {
		a.storeStatus(*f.ID, a.newStatus(t.TaskID, state, reason, message))
	}
}

func (a *EmbeddedAgent) newRun(f *frameworkState, info mesos.ExecutorInfo) *executorState {
	e := &executorState{framework: f, info: info, nested: map[string]*nestedContainer{}}
	e.info.FrameworkID = f.info.ID
	if info.Command == nil {
		e.info, e.supplied = suppliedExecutor(e.info, a.cfg.ExecutorPath), true
	}
	f.executors[e.id()] = e
	return e
}

// startExecutor creates the executor's container, outside the loop.
func (a *EmbeddedAgent) startExecutor(e *executorState) {
	e.container = uuid.NewString()
	e.sandbox = filepath.Join(runsDir(a.cfg.WorkDir, a.info.ID.Value, e.framework.id(), e.id()), e.container)
	for _, t := range e.tasks {
		t.ready = true
	}
	resources, others := e.allocatedResources(), a.resourcesOfOthers(e)
	spec, err := a.executorSpec(e, resources)
	uris := e.info.Command.URIs
	e.command = spec.Command
	a.cfg.Log.WithFields(e.logFields()).Info("starting executor")
	ctx, abort := context.WithCancel(a.background())
	e.abort = abort
	a.runInBackground(func(context.Context) func() {
		defer abort()
		var box *container.RunningContainer
		var granted pendingGrant
		if err == nil {
			err = a.providers.Publish(ctx, resources, others)
		}
		if err == nil {
			granted, err = a.prepareGrant(e.container, resources)
		}
		if err == nil {
			box, err = a.launchExecutor(ctx, e.sandbox, uris, spec, granted)
		}
		return func() { a.executorStarted(e, box, granted, err) }
	})
	a.postAfter(a.cfg.RegistrationTimeout, func() { a.registrationTimeout(e) })
}

// executorSpec returns the spec of the executor's container without output
// files and devices.
func (a *EmbeddedAgent) executorSpec(e *executorState, resources []mesos.Resource) (container.LaunchSpec, error) {
	if err := supportedExecutor(e.info); err != nil {
		return container.LaunchSpec{}, err
	}
	args, err := oci.CommandArgs(e.info.Command)
	if err != nil {
		return container.LaunchSpec{}, err
	}
	env, err := executorEnvironment(&a.cfg, a.info.ID.Value, e.sandbox, e)
	if err != nil {
		return container.LaunchSpec{}, err
	}
	user, err := a.resolveUser(e.info.Command.GetUser(), e.framework.info.User)
	if err != nil {
		return container.LaunchSpec{}, err
	}
	limits := cgroupLimits(resources)
	if e.supplied {
		// Mesos adds this for the default executor of a command task.
		limits.CPUs += 0.1
		limits.MemBytes += 32 << 20
	}
	return container.LaunchSpec{
		ID: []string{e.container}, Limits: limits,
		Command: container.Command{Path: args[0], Args: args, Env: env, Dir: e.sandbox, User: user},
	}, nil
}

// supportedExecutor rejects an ExecutorInfo with unsupported settings.
func supportedExecutor(info mesos.ExecutorInfo) error {
	if info.Container != nil {
		return fmt.Errorf("executor %s wants a container of its own; this agent runs executors in its own file system", info.ExecutorID.Value)
	}
	return nil
}

// launchExecutor creates the sandbox, fetches URIs into it and starts the
// container.
func (a *EmbeddedAgent) launchExecutor(ctx context.Context, sandbox string, uris []mesos.CommandInfo_URI, s container.LaunchSpec, g pendingGrant) (*container.RunningContainer, error) {
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
	if err := fetch.FetchAll(ctx, sandbox, ".", uris, ownerOf(s.Command.User)); err != nil {
		return nil, err
	}
	s.Stdout, s.Stderr = out.stdout, out.stderr
	s.Nodes, s.Isolate = g.grant.Nodes, g.isolate
	return a.engine.Launch(ctx, s)
}

// ownerOf returns the owner of a user's files.
func ownerOf(u *container.User) *fetch.FileOwner {
	if u == nil {
		return nil
	}
	return &fetch.FileOwner{UID: int(u.UID), GID: int(u.GID)}
}

// linkLatest points the latest link to the sandbox.
func linkLatest(sandbox string) error {
	latest := filepath.Join(filepath.Dir(sandbox), "latest")
	if err := atomicfile.Symlink(sandbox, latest); err != nil {
		return fmt.Errorf("link latest run: %w", err)
	}
	return nil
}

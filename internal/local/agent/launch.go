package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/local/agent/oci"
	"mesos-gpu/job"
)

// launchTask assigns a task to its executor and starts the executor if
// necessary. The master has validated the ids. A launch that was sent before the
// agent registered again starts too, although the master may not know the task
// any more; one for another agent at this address does not.
func (a *EmbeddedAgent) launchTask(info mesos.FrameworkInfo, ex mesos.ExecutorInfo, task mesos.TaskInfo) {
	if task.AgentID != *a.info.ID {
		a.cfg.Log.WithField("task", task.TaskID.Value).Warnf("ignored a launch for agent %s", task.AgentID.Value)
		return
	}
	id := info.GetID().GetValue()
	f := a.frameworks[id]
	if f == nil {
		f = &frameworkState{executors: map[string]*executorState{}}
		a.frameworks[id] = f
	}
	f.info = info
	e := f.executors[ex.ExecutorID.Value]
	switch {
	case f.ending:
		return
	case a.stopping:
		a.storeStatus(*info.ID, a.newStatus(task.TaskID, f.missingTaskState(), mesos.REASON_AGENT_DISCONNECTED, "The agent is stopping"))
		a.forgetFramework(f)
		return
	case e != nil && e.phase >= ending:
		a.storeStatus(*info.ID, a.newStatus(task.TaskID, f.missingTaskState(), mesos.REASON_EXECUTOR_TERMINATED, "The executor is ending"))
		return
	case e == nil:
		e = a.newRun(f, ex)
	}
	if e.findTask(task.TaskID.Value) != nil {
		a.cfg.Log.WithField("task", task.TaskID.Value).Warn("ignored a launch: the executor has a task of that id")
	} else {
		e.tasks = append(e.tasks, &taskState{info: task, state: mesos.TASK_STAGING, stored: mesos.TASK_STAGING})
	}
	switch {
	case e.container == "":
		a.startExecutor(e)
	case e.phase == running:
		a.deliverTasks(e)
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
	uris, hosts := e.info.Command.URIs, fetchHostsOf(e.info)
	e.command = spec.Command
	a.cfg.Log.WithFields(e.logFields()).Info("starting executor")
	a.saveExecutor(e)
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
			box, err = a.launchExecutor(ctx, e.sandbox, uris, hosts, spec, granted)
		}
		return func() { a.executorStarted(e, box, granted, err) }
	})
	a.postAfter(a.cfg.registrationTimeout, func() { a.registrationTimeout(e) })
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
	if n := info.GetContainer().GetNetworkInfos(); len(n) > 0 {
		return fmt.Errorf("executor %s joins the network %q: this embedded agent has no CNI networks; use the host's, "+
			"or an agent of Apache Mesos with the isolator network/cni",
			info.ExecutorID.Value, n[0].GetName())
	}
	if info.Container != nil {
		return fmt.Errorf("executor %s wants a container of its own; this agent runs executors in its own file system", info.ExecutorID.Value)
	}
	return nil
}

// launchExecutor creates the sandbox, fetches URIs into it and starts the
// container.
func (a *EmbeddedAgent) launchExecutor(
	ctx context.Context, sandbox string, uris []mesos.CommandInfo_URI, hosts job.FetchHosts, s container.LaunchSpec,
	g pendingGrant,
) (*container.RunningContainer, error) {
	if err := makeRunsFolder(filepath.Dir(sandbox)); err != nil {
		return nil, fmt.Errorf("make sandbox: %w", err)
	}
	if err := openRunsTo(filepath.Dir(sandbox), s.Command.User); err != nil {
		return nil, err
	}
	if err := os.Mkdir(sandbox, 0o750); err != nil {
		return nil, fmt.Errorf("make sandbox: %w", err)
	}
	if err := linkLatest(sandbox); err != nil {
		return nil, err
	}
	out, err := prepareSandbox(ctx, sandbox, ".", s.Command.User, uris, hosts)
	if err != nil {
		return nil, err
	}
	defer out.close()
	s.Stdout, s.Stderr = out.stdout, out.stderr
	s.Nodes, s.Isolate = g.grant.Nodes, g.isolate
	return a.engine.Launch(ctx, s)
}

// fetchHostsOf returns the hosts that the scheduler permits for the executor's
// files, or nil for all.
func fetchHostsOf(info mesos.ExecutorInfo) job.FetchHosts {
	for _, l := range info.GetLabels().GetLabels() {
		if l.Key == job.FetchHostsLabel {
			return append(job.FetchHosts{}, strings.Fields(l.GetValue())...)
		}
	}
	return nil
}

// latestRun is the name of the link to the latest sandbox of an executor.
const latestRun = "latest"

// linkLatest points the latest link to the sandbox.
func linkLatest(sandbox string) error {
	latest := filepath.Join(filepath.Dir(sandbox), latestRun)
	if err := atomicfile.Symlink(sandbox, latest); err != nil {
		return fmt.Errorf("link latest run: %w", err)
	}
	return nil
}

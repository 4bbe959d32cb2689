package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/agent/container"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/updates"
)

// recoverExecutors adopts the executors of an earlier agent and ends what it does
// not adopt. It runs before the loop. Executors whose containers have ended
// meanwhile, or never started, are terminated once the loop runs.
func (a *EmbeddedAgent) recoverExecutors(ctx context.Context) error {
	if !a.cfg.Recover {
		return nil
	}
	id, checkpoints, err := a.readCheckpoints()
	if err != nil {
		return err
	}
	boxes, err := a.engine.AdoptContainers()
	if err != nil {
		return err
	}
	if id != "" {
		a.info.ID = &mesos.AgentID{Value: id}
	}
	kept := map[string]*container.RunningContainer{}
	for _, c := range checkpoints {
		e, err := a.restoreExecutor(c)
		if err != nil {
			return damagedRecords(fmt.Errorf("executor in container %s: %w", c.Container, err))
		}
		for name, box := range boxes {
			if name == c.Container || strings.HasPrefix(name, c.Container+".") {
				kept[name] = box
			}
		}
		a.loop.post(func() { a.resumeExecutor(e, c, kept) })
	}
	for name, box := range boxes {
		if kept[name] == nil {
			box.Kill()
			box.Forget()
		}
	}
	return errors.Join(a.engine.ClearUnknown(ctx, kept), a.removeRuns(kept))
}

// HasSurvivors reports whether executors or tasks of an earlier agent of a work directory run. They look for the next agent
// at the address of the earlier one.
func HasSurvivors(workDir string) (bool, error) {
	return container.HasSurvivors(filepath.Join(workDir, recoverFolder, containersFolder))
}

// removeRuns removes the files of containers with images that are not kept.
func (a *EmbeddedAgent) removeRuns(kept map[string]*container.RunningContainer) error {
	folder := filepath.Join(a.cfg.WorkDir, runFolder)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if kept[e.Name()] == nil {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, e.Name())))
		}
	}
	return err
}

// restoreExecutor rebuilds the state of an executor and its pending statuses.
func (a *EmbeddedAgent) restoreExecutor(c executorCheckpoint) (*executorState, error) {
	var framework mesos.FrameworkInfo
	e := &executorState{
		supplied:  c.Supplied,
		container: c.Container,
		sandbox:   c.Sandbox,
		command:   c.Command,
		abort:     func() {},
		nested:    map[string]*nestedContainer{},
	}
	if err := framework.Unmarshal(c.Framework); err != nil {
		return nil, err
	}
	if err := e.info.Unmarshal(c.Info); err != nil {
		return nil, err
	}
	f := a.frameworks[framework.GetID().GetValue()]
	if f == nil {
		f = &frameworkState{info: framework, executors: map[string]*executorState{}}
		a.frameworks[f.id()] = f
	}
	e.framework, f.executors[e.id()] = f, e
	for _, saved := range c.Tasks {
		t := &taskState{state: saved.State, stored: saved.State, ready: saved.Ready, sent: saved.Sent}
		if err := t.info.Unmarshal(saved.Info); err != nil {
			return nil, err
		}
		e.tasks = append(e.tasks, t)
		key := updates.TaskKey{Framework: f.id(), Task: t.info.TaskID.Value}
		for _, data := range saved.Pending {
			var s mesos.TaskStatus
			if err := s.Unmarshal(data); err != nil {
				return nil, err
			}
			a.streams.Add(now(), key, s)
		}
		t.acked = events.IsTerminal(t.state) && !a.streams.HasPending(key)
	}
	if c.Ending {
		e.phase = ending
	}
	return e, nil
}

// resumeExecutor continues with an executor's containers, on the loop.
func (a *EmbeddedAgent) resumeExecutor(e *executorState, c executorCheckpoint, boxes map[string]*container.RunningContainer) {
	box := boxes[c.Container]
	if box == nil {
		for _, t := range e.tasks {
			if t.isLive() {
				a.agentStatus(e, t, e.framework.missingTaskState(), mesos.REASON_EXECUTOR_TERMINATED,
					"The agent ended before it started the executor, or the machine restarted")
			}
		}
		a.executorTerminated(e, -1)
		return
	}
	a.cfg.Log.WithFields(e.logFields()).Info("recovered executor")
	for _, saved := range c.Nested {
		n := &nestedContainer{ids: saved.IDs, image: saved.Image, user: saved.User, command: saved.Command, abort: func() {}}
		n.done, n.setDone = context.WithCancel(context.Background())
		if inner := boxes[strings.Join(saved.IDs, ".")]; inner != nil {
			e.nested[n.containerName()] = n
			a.nestedStarted(e, n, inner)
		}
	}
	resources := e.allocatedResources()
	g, err := a.prepareGrant(e.container, resources)
	if err != nil {
		a.cfg.Log.WithFields(e.logFields()).WithError(err).Error("cannot find the devices of a recovered container; destroying it")
		box.Kill()
	}
	if e.phase < ending {
		a.postAfter(max(a.cfg.registrationTimeout, 2*a.cfg.SubscriptionBackoff+time.Second), func() { a.registrationTimeout(e) })
	}
	a.executorStarted(e, box, g, nil)
}

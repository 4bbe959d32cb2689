package agent

import (
	"context"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/isolator"
)

// grantKey identifies a grant by the devices in it.
type grantKey struct {
	gpus int
	ids  string
}

// pendingGrant is a grant that is not yet applied to a container's cgroup.
type pendingGrant struct {
	key   grantKey
	grant isolator.DeviceGrant
	// isolate is nil if the agent does not confine containers.
	isolate func(cgroup string) error
}

// prepareGrant computes the grant of a container with the given resources.
func (a *EmbeddedAgent) prepareGrant(id string, resources []mesos.Resource) (pendingGrant, error) {
	gpus, ids, err := countDevices(resources)
	if err != nil {
		return pendingGrant{}, err
	}
	g := pendingGrant{key: keyOf(gpus, ids)}
	if !a.cfg.Root {
		return g, nil
	}
	if g.grant, err = a.cfg.Isolator.ResolveTaskGrant(id, gpus, ids); err != nil {
		return pendingGrant{}, err
	}
	g.isolate = func(cgroup string) error { return a.cfg.Isolator.ApplyGrant(cgroup, g.grant) }
	return g, nil
}

func keyOf(gpus int, ids []string) grantKey {
	sorted := slices.Sorted(slices.Values(ids))
	return grantKey{gpus, strings.Join(sorted, "\n")}
}

// grantMatches reports whether the container's grant equals the grant that its
// executor and live tasks require.
func (e *executorState) grantMatches() bool {
	gpus, ids, err := countDevices(e.allocatedResources())
	return err == nil && keyOf(gpus, ids) == e.granted
}

// updateGrant changes the container's grant to match its executor and live
// tasks, and then runs then. If devices cannot be revoked, it destroys the
// container, because the devices are about to be assigned to another.
func (a *EmbeddedAgent) updateGrant(e *executorState, then func()) {
	if e.resizing {
		e.later = append(e.later, func() { a.updateGrant(e, then) })
		return
	}
	if e.box == nil || e.grantMatches() {
		then()
		return
	}
	e.resizing = true
	resources, box := e.allocatedResources(), e.box
	a.runInBackground(func(context.Context) func() {
		g, err := a.prepareGrant(e.container, resources)
		if err == nil && g.isolate != nil {
			err = g.isolate(box.CgroupName())
		}
		return func() {
			a.grantUpdated(e, g, err)
			then()
			later := e.later
			e.later = nil
			for _, again := range later {
				again()
			}
			a.removeContainer(e)
		}
	})
}

func (a *EmbeddedAgent) grantUpdated(e *executorState, g pendingGrant, err error) {
	e.resizing = false
	if err == nil {
		e.grant, e.granted = g.grant, g.key
		return
	}
	if e.exited {
		return // the cgroup is gone, so nothing remains to revoke
	}
	a.cfg.Log.WithFields(e.logFields()).WithError(err).Error("cannot change a container's devices; destroying it")
	a.destroyContainer(e, termination{reason: mesos.REASON_CONTAINER_UPDATE_FAILED.Enum(), message: err.Error()})
}

// resourcesOfOthers returns the resources of all other executors and their live
// tasks.
func (a *EmbeddedAgent) resourcesOfOthers(than *executorState) []mesos.Resource {
	var all []mesos.Resource
	for e := range a.liveExecutors() {
		if e != than {
			all = append(all, e.allocatedResources()...)
		}
	}
	return all
}

// deliverTasks sends new tasks to a subscribed executor. The container must run
// (an executor may subscribe earlier), and the tasks' resources must be
// published and granted.
func (a *EmbeddedAgent) deliverTasks(e *executorState) {
	if e.updating || e.box == nil || e.phase != running {
		return
	}
	var batch []*taskState
	for _, t := range e.tasks {
		if t.isLive() && !t.sent {
			batch = append(batch, t)
		}
	}
	if !slices.ContainsFunc(batch, func(t *taskState) bool { return !t.ready }) {
		a.sendTasks(e, batch)
		return
	}
	e.updating = true
	wanted, others := e.allocatedResources(), a.resourcesOfOthers(e)
	a.runInBackground(func(ctx context.Context) func() {
		err := a.providers.Publish(ctx, wanted, others)
		return func() { a.deliverPublished(e, batch, err) }
	})
}

// deliverPublished continues deliverTasks after the resources are published.
func (a *EmbeddedAgent) deliverPublished(e *executorState, batch []*taskState, err error) {
	if _, _, count := countDevices(e.allocatedResources()); err == nil {
		err = count
	}
	if err != nil {
		e.updating = false
		for _, t := range batch {
			if t.isLive() && !t.ready {
				a.agentStatus(e, t, mesos.TASK_FAILED, mesos.REASON_CONTAINER_UPDATE_FAILED, err.Error())
			}
		}
		a.shutdownUnused(e)
		return
	}
	a.updateGrant(e, func() {
		e.updating = false
		for _, t := range batch {
			t.ready = true
		}
		a.deliverTasks(e)
	})
}

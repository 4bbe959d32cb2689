package agent

import (
	"context"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/isolator"
)

// grantKey tells two grants apart: the devices they are of.
type grantKey struct {
	gpus int
	ids  string
}

// granting is a grant on its way into a container's cgroup.
type granting struct {
	key   grantKey
	grant isolator.Grant
	// isolate is nil where nothing confines containers.
	isolate func(cgroup string) error
}

// prepareGrant decides what a container with those resources may open.
func (a *Agent) prepareGrant(id string, resources []mesos.Resource) (granting, error) {
	gpus, ids, err := devices(resources)
	if err != nil {
		return granting{}, err
	}
	g := granting{key: keyOf(gpus, ids)}
	if !a.cfg.Root {
		return g, nil
	}
	if g.grant, err = a.cfg.Isolator.Prepare(id, gpus, ids); err != nil {
		return granting{}, err
	}
	g.isolate = func(cgroup string) error { return a.cfg.Isolator.Isolate(cgroup, g.grant) }
	return g, nil
}

func keyOf(gpus int, ids []string) grantKey {
	sorted := slices.Sorted(slices.Values(ids))
	return grantKey{gpus, strings.Join(sorted, "\n")}
}

// fits reports whether the container's grant is the one that its executor and
// live tasks should have.
func (e *executorRun) fits() bool {
	gpus, ids, err := devices(e.resources())
	return err == nil && keyOf(gpus, ids) == e.granted
}

// resize changes what the container may open to what its executor and live
// tasks have, then runs then. A container whose devices cannot be taken away
// is destroyed: they are about to be another's.
func (a *Agent) resize(e *executorRun, then func()) {
	if e.resizing {
		e.later = append(e.later, func() { a.resize(e, then) })
		return
	}
	if e.box == nil || e.fits() {
		then()
		return
	}
	e.resizing = true
	resources, box := e.resources(), e.box
	a.work(func(context.Context) func() {
		g, err := a.prepareGrant(e.container, resources)
		if err == nil && g.isolate != nil {
			err = g.isolate(box.Cgroup())
		}
		return func() {
			a.resized(e, g, err)
			then()
			later := e.later
			e.later = nil
			for _, again := range later {
				again()
			}
			a.finish(e)
		}
	})
}

func (a *Agent) resized(e *executorRun, g granting, err error) {
	e.resizing = false
	if err == nil {
		e.grant, e.granted = g.grant, g.key
		return
	}
	if e.exited {
		return // with its cgroup there is nothing left to take away
	}
	a.cfg.Log.WithFields(e.fields()).WithError(err).Error("cannot change a container's devices; destroying it")
	reason := mesos.REASON_CONTAINER_UPDATE_FAILED
	a.destroy(e, termination{reason: &reason, message: err.Error()})
}

// others is everything that the other executors and their live tasks have.
func (a *Agent) others(than *executorRun) []mesos.Resource {
	var all []mesos.Resource
	for e := range a.executors() {
		if e != than {
			all = append(all, e.resources()...)
		}
	}
	return all
}

// deliver gives a subscribed executor the tasks it has not seen, once its
// container is known to run (it may subscribe before), their resources are
// published and it may use them.
func (a *Agent) deliver(e *executorRun) {
	if e.updating || e.box == nil || e.phase != running {
		return
	}
	var batch []*task
	for _, t := range e.tasks {
		if t.live() && !t.sent {
			batch = append(batch, t)
		}
	}
	if !slices.ContainsFunc(batch, func(t *task) bool { return !t.ready }) {
		e.sendTasks(batch)
		return
	}
	e.updating = true
	wanted, others := e.resources(), a.others(e)
	a.work(func(ctx context.Context) func() {
		err := a.providers.Publish(ctx, wanted, others)
		return func() { a.published(e, batch, err) }
	})
}

// published goes on with what deliver began.
func (a *Agent) published(e *executorRun, batch []*task, err error) {
	if _, _, count := devices(e.resources()); err == nil {
		err = count
	}
	if err != nil {
		e.updating = false
		for _, t := range batch {
			if t.live() && !t.ready {
				a.agentStatus(e, t, mesos.TASK_FAILED, mesos.REASON_CONTAINER_UPDATE_FAILED, err.Error())
			}
		}
		a.shutdownUnused(e)
		return
	}
	a.resize(e, func() {
		e.updating = false
		for _, t := range batch {
			t.ready = true
		}
		a.deliver(e)
	})
}

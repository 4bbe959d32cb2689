package framework

import (
	"context"
	"errors"
	"fmt"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/job"
)

// clusterReader answers what leader and standby both can: out of a view, and of
// master and agents.
type clusterReader struct {
	view   *readModel
	client *master.Client
	lister agentLister
}

func (r *clusterReader) GetTask(_ context.Context, id string) (job.Task, error) {
	return r.view.findTask(id)
}

func (r *clusterReader) OwnerOf(_ context.Context, job, task string) (role, owner string, err error) {
	return r.view.ownerOf(job, task)
}

func (r *clusterReader) ReadTaskLog(ctx context.Context, t job.Task, file string, offset, length uint64) (data []byte, size uint64, err error) {
	path := master.SandboxFilePath(r.view.currentFrameworkID(), t.ID, file)
	data, size, err = r.client.ReadFile(ctx, t.AgentURL, path, offset, length)
	if errors.Is(err, master.ErrNoFile) {
		return nil, 0, fmt.Errorf("%w: %w", api.ErrNoLog, err)
	}
	return data, size, err
}

func (r *clusterReader) WatchEvents(ctx context.Context, q api.EventQuery) (now []api.TaskEvent, changes <-chan api.TaskEvent, err error) {
	now, l, err := r.view.subscribeEvents(q)
	if err != nil {
		return nil, nil, err
	}
	if q.WithInventory {
		r.view.hub.subscribeInventory(l)
	}
	context.AfterFunc(ctx, func() { r.view.hub.removeListener(l) })
	return now, l.ch, nil
}

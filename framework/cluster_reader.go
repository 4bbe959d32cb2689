package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
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

// unavailableBackend answers while there is nothing to answer from.
type unavailableBackend struct{ reason string }

func (n unavailableBackend) unavailable() error { return api.NewUnavailable("%s: ask again", n.reason) }

// Elsewhere: nobody knows who leads.
func (n unavailableBackend) Elsewhere(context.Context) error { return n.unavailable() }

func (n unavailableBackend) SubmitJob(context.Context, job.Spec) (v api.JobView, err error) {
	return v, n.unavailable()
}
func (n unavailableBackend) ListJobs(context.Context, api.JobQuery) (l api.JobList, err error) {
	return l, n.unavailable()
}
func (n unavailableBackend) GetJob(context.Context, string) (v api.JobView, err error) {
	return v, n.unavailable()
}
func (n unavailableBackend) KillJob(context.Context, string, bool) error { return n.unavailable() }
func (n unavailableBackend) GetTask(context.Context, string) (t job.Task, err error) {
	return t, n.unavailable()
}
func (n unavailableBackend) ListAgents(context.Context) ([]api.AgentSummary, error) {
	return nil, n.unavailable()
}
func (n unavailableBackend) GetAgent(context.Context, string) (a api.AgentDetail, err error) {
	return a, n.unavailable()
}
func (n unavailableBackend) ListGPUs(context.Context) ([]api.GPUView, error) {
	return nil, n.unavailable()
}
func (n unavailableBackend) GetHealth(context.Context) (h api.HealthStatus, err error) {
	return h, n.unavailable()
}
func (n unavailableBackend) CheckReady(context.Context) error { return n.unavailable() }
func (n unavailableBackend) OwnerOf(context.Context, string, string) (role, owner string, err error) {
	return "", "", n.unavailable()
}
func (n unavailableBackend) MetricsSnapshot(context.Context) (s metrics.Snapshot, err error) {
	return s, n.unavailable()
}
func (n unavailableBackend) AsOf() time.Time { return time.Time{} }
func (n unavailableBackend) ReadTaskLog(context.Context, job.Task, string, uint64, uint64) ([]byte, uint64, error) {
	return nil, 0, n.unavailable()
}
func (n unavailableBackend) WatchEvents(context.Context, api.EventQuery) ([]api.TaskEvent, <-chan api.TaskEvent, error) {
	return nil, nil, n.unavailable()
}

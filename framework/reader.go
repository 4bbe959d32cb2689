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

// reader answers what leader and standby both can: out of a view, and of
// master and agents.
type reader struct {
	view   *view
	client *master.Client
	rounds rounds
}

func (r *reader) Task(_ context.Context, id string) (job.Task, error) { return r.view.Task(id) }

func (r *reader) Whose(_ context.Context, job, task string) (role, owner string, err error) {
	return r.view.whose(job, task)
}

func (r *reader) ReadLog(ctx context.Context, t job.Task, file string, offset, length uint64) (data []byte, size uint64, err error) {
	path := master.SandboxFile(r.view.framework(), t.ID, file)
	data, size, err = r.client.ReadFile(ctx, t.AgentURL, path, offset, length)
	if errors.Is(err, master.ErrNoFile) {
		return nil, 0, fmt.Errorf("%w: %w", api.ErrNoLog, err)
	}
	return data, size, err
}

func (r *reader) Events(ctx context.Context, q api.EventQuery) (now []api.Event, changes <-chan api.Event, err error) {
	now, l, err := r.view.events(q)
	if err != nil {
		return nil, nil, err
	}
	if q.Inventory {
		r.view.hub.want(l)
	}
	context.AfterFunc(ctx, func() { r.view.hub.leave(l) })
	return now, l.ch, nil
}

// nobody answers while there is nothing to answer from.
type nobody struct{ why string }

func (n nobody) problem() error { return api.NotYet("%s: ask again", n.why) }

// Elsewhere: nobody knows who leads.
func (n nobody) Elsewhere(context.Context) error { return n.problem() }

func (n nobody) Submit(context.Context, job.Spec) (v api.JobView, err error) { return v, n.problem() }
func (n nobody) Jobs(context.Context, api.JobQuery) (l api.JobList, err error) {
	return l, n.problem()
}
func (n nobody) Job(context.Context, string) (v api.JobView, err error) { return v, n.problem() }
func (n nobody) Kill(context.Context, string, bool) error               { return n.problem() }
func (n nobody) Task(context.Context, string) (t job.Task, err error)   { return t, n.problem() }
func (n nobody) Agents(context.Context) ([]api.Agent, error)            { return nil, n.problem() }
func (n nobody) Agent(context.Context, string) (a api.AgentView, err error) {
	return a, n.problem()
}
func (n nobody) GPUs(context.Context) ([]api.GPU, error)          { return nil, n.problem() }
func (n nobody) Health(context.Context) (h api.Health, err error) { return h, n.problem() }
func (n nobody) Ready(context.Context) error                      { return n.problem() }
func (n nobody) Whose(context.Context, string, string) (role, owner string, err error) {
	return "", "", n.problem()
}
func (n nobody) Metrics(context.Context) (s metrics.Snapshot, err error) { return s, n.problem() }
func (n nobody) AsOf() time.Time                                         { return time.Time{} }
func (n nobody) ReadLog(context.Context, job.Task, string, uint64, uint64) ([]byte, uint64, error) {
	return nil, 0, n.problem()
}
func (n nobody) Events(context.Context, api.EventQuery) ([]api.Event, <-chan api.Event, error) {
	return nil, nil, n.problem()
}

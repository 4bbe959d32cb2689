// Package clusterview describes agents and GPUs as the master lists them, together
// with the read model's information about their tasks. The leader and a standby
// share it. It sends no commands to the master.
package clusterview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Reader serves the requests that a leader and a standby serve alike, from the read
// model, the master and the agents.
type Reader struct {
	// Model answers what the journal contains.
	Model *readmodel.Model
	// Client reads logs and lists of agents from Mesos.
	Client *master.Client
	// lister shares the lists of agents between concurrent requests.
	lister AgentLister
}

// GetTask returns a task or a stored earlier attempt; 404 if the read model has neither.
func (r *Reader) GetTask(_ context.Context, id string) (job.Task, error) {
	return r.Model.FindTask(id)
}

// ListNotifications returns the notifications that were not delivered, oldest first.
func (r *Reader) ListNotifications(context.Context) ([]api.NotificationView, error) {
	return r.Model.ListNotifications(), nil
}

// ListHolds returns the holds of users and roles.
func (r *Reader) ListHolds(context.Context) ([]api.HoldView, error) { return r.Model.ListHolds(), nil }

// ResolveJob returns the run that a requester means by a reference.
func (r *Reader) ResolveJob(_ context.Context, by *access.Grant, reference string) (request.FoundJob, error) {
	return r.Model.ResolveJob(by, reference)
}

// OwnerOf returns the role and owner of a job, or of the run of it to which the task belongs.
func (r *Reader) OwnerOf(_ context.Context, job, task string) (role, owner string, err error) {
	return r.Model.OwnerOf(job, task)
}

// ReadTaskLog reads up to length bytes of a file in a task's sandbox, from offset on. It
// also returns the file's size. It returns api.ErrNoLog, wrapped, if there is no such file.
func (r *Reader) ReadTaskLog(ctx context.Context, t job.Task, file string, offset, length uint64) (data []byte, size uint64, err error) {
	path := master.SandboxFilePath(r.Model.CurrentFrameworkID(), t.SandboxID(), file)
	data, size, err = r.Client.ReadFile(ctx, t.AgentURL, path, offset, length)
	if errors.Is(err, master.ErrNoFile) {
		return nil, 0, fmt.Errorf("%w: %w", request.ErrNoLog, err)
	}
	return data, size, err
}

// WatchEvents returns the states of tasks and later events, as of readmodel.Model.WatchEvents.
func (r *Reader) WatchEvents(ctx context.Context, q request.EventQuery) (<-chan request.EventBatch, error) {
	return r.Model.WatchEvents(ctx, q)
}

// KnowsEvent reports whether a stream can continue after the event with this ID.
func (r *Reader) KnowsEvent(id string) bool { return r.Model.KnowsEvent(id) }

// ReadStates calls visit with the present states of tasks, as readmodel.Model.ReadStates does.
func (r *Reader) ReadStates(q request.EventQuery, visit func(*request.EventBatch) error) (position string, err error) {
	return r.Model.ReadStates(q, visit)
}

// ListTasks returns at most limit of a job's tasks, from an index on, if the job was submitted at that time.
func (r *Reader) ListTasks(_ context.Context, name string, submitted time.Time, from, limit int) ([]job.Task, error) {
	return r.Model.ListTasks(name, submitted, from, limit), nil
}

// UsageReadTimeout bounds how long an agent may take to return a usage file.
const UsageReadTimeout = 3 * time.Second

// ReadUsage reads and parses a running task's usage file. The file is untrusted: the
// task can write any content to it.
func (r *Reader) ReadUsage(ctx context.Context, t *job.Task) (gpu.TaskUsage, error) {
	ctx, cancel := context.WithTimeout(ctx, UsageReadTimeout)
	defer cancel()
	path := master.SandboxFilePath(r.Model.CurrentFrameworkID(), t.ID, gpu.UsageFile)
	text, _, err := r.Client.ReadFile(ctx, t.AgentURL, path, 0, gpu.MaxUsageBytes+1)
	if err != nil {
		return gpu.TaskUsage{}, err
	}
	return gpu.ParseUsage(text, t.DeviceIDs)
}

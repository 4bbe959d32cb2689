// Package request has what the HTTP server and the packages behind it agree on: the requester of a change and its
// condition, queries, cursors of pages, ETags, and errors. Storage and the leader import it instead of the server.
package request

import (
	"errors"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// JobQuery selects the jobs to list.
type JobQuery struct {
	api.JobQuery
	// MaxTasks ends a page early, after the job with which it has that many tasks; 0 means
	// no limit. The page then has a Next.
	MaxTasks int
	// RunsOf lists the runs of the job that has this run, "" the newest run of each owner's jobs.
	RunsOf string
	// Grant restricts the list to what the requester may see; nil permits all.
	Grant *access.Grant
}

// FoundJob is the run that a requester means by a reference.
type FoundJob struct {
	Run job.RunID
	// Owner is the owner of the job, "" if it has none.
	Owner string
	// IsSingleRun is set if the reference names the run itself, and not a job of which it is the newest run.
	IsSingleRun bool
}

// ID returns NAME@RUN, by which backends find the run.
func (f *FoundJob) ID() string {
	return f.Run.Reference() // NAME if it was not resolved
}

// Selects returns what the reference selects: the run itself or, with the number 0, all runs of the owner's job.
func (f *FoundJob) Selects() (run job.RunID, owner string) {
	if f.IsSingleRun {
		return f.Run, ""
	}
	return job.RunID{Name: f.Run.Name}, f.Owner
}

// EventQuery selects the events of a stream.
type EventQuery struct {
	// Job is the run to watch, NAME@RUN, or the NAME of the Owner's job, whose later runs are watched too; "" means all
	// jobs.
	Job, Owner string
	// LiveOnly omits the initial states of tasks that have ended. Later ends are sent.
	LiveOnly bool
	// WithInventory requests an event whenever agents or GPUs have changed.
	WithInventory bool
	// After is the ID of the last event that the client has received. If it is unknown,
	// too old or "", the stream starts with all states.
	After string
}

// ErrEventsMissed ends a stream whose client was too slow: events that it has not received are no longer stored.
var ErrEventsMissed = errors.New("events that the client has not received are no longer stored")

// EventBatch is a part of an event stream.
type EventBatch struct {
	// Events are the next events. Those of the present states have no ID, except for the
	// last of them.
	Events []api.TaskEvent
	// Position is set in the batch that completes the present states: it is the ID at which
	// a client may resume, even if it may not see the last event.
	Position string
	// Missed means that the client was too slow: events that it has not received are no
	// longer stored, and the stream ends.
	Missed bool
}

// UsageQuery selects tasks by job, role, task id and agent id; "" selects all.
type UsageQuery struct {
	api.PageRequest
	// Job, Role, Task and Agent each limit the tasks; "" is no limit.
	Job, Role, Task, Agent string
	// Minutes is the length of the requested history, 0 to api.MaxUsageMinutes.
	Minutes int
}

// RerunQuery is a request to run a job again.
type RerunQuery struct {
	api.RerunRequest
	// ClientKey is nil if the request has no idempotency key.
	ClientKey *job.ClientKey
}

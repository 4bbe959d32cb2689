package apiserver

import (
	"context"
	"io"
	"os"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/portrelay"
	"mesos-gpu/job"
)

// Backend answers the requests of the API as long as the scheduler's role does
// not change: the handler asks for it once per request.
type Backend struct {
	// Reads answers what a leader and a standby both know. It is nil while the
	// scheduler has nothing to answer from.
	Reads ReadBackend
	// Leader changes the cluster and answers what only the leader knows. It is
	// nil where this scheduler does not lead.
	Leader LeaderBackend
	// Redirect returns the error for a request that Reads or Leader would answer
	// if it were not nil: RedirectToLeader, or NewUnavailable where no leader is
	// known. It is required unless both are set.
	Redirect func(ctx context.Context) error
}

// NewLeaderBackend returns a Backend for which b answers all requests.
func NewLeaderBackend[B interface {
	ReadBackend
	LeaderBackend
}](b B) Backend {
	return Backend{Reads: b, Leader: b}
}

// NewUnavailableBackend returns a Backend that answers every request with
// status 503 and the reason, for example while the scheduler starts.
func NewUnavailableBackend(reason string) Backend {
	return Backend{Redirect: func(context.Context) error { return api.NewUnavailable("%s: ask again", reason) }}
}

// ReadBackend answers requests that change nothing, on the leader and on a
// standby. An error is a *api.Problem where the client needs more than status 500.
type ReadBackend interface {
	// ListJobs and GetJob omit all but the first tasks of a large job, and
	// count them in OmittedTasks. ListTasks returns them.
	ListJobs(ctx context.Context, q request.JobQuery) (api.JobList, error)
	GetJob(ctx context.Context, name string) (api.JobView, error)
	// ListTasks returns at most limit tasks of a job, from the one with the index
	// from on. It returns none if that task does not exist or the job is not the
	// one that was submitted at that time.
	ListTasks(ctx context.Context, job string, submitted time.Time, from, limit int) ([]job.Task, error)
	// GetTask returns a task, or an earlier attempt that is still stored; else 404.
	GetTask(ctx context.Context, id string) (job.Task, error)
	// OwnerOf returns the role and the owner of a job; the owner is "" where the
	// API has no access file. If task is not empty it must be a task of this
	// submission: an earlier job of the name may have had another owner.
	OwnerOf(ctx context.Context, job, task string) (role, owner string, err error)
	// ReadTaskLog reads from a file of a task's output (stdout, stderr, or a
	// rotated one such as stdout.1) and returns the file's size. It returns
	// request.ErrNoLog, wrapped, if the task has not written the file.
	ReadTaskLog(ctx context.Context, t job.Task, file string, offset, length uint64) (data []byte, size uint64, err error)
	// FindSandbox returns the sandbox of a task. It returns request.ErrNoFile, wrapped, if its
	// agent has none.
	FindSandbox(ctx context.Context, t job.Task) (request.TaskSandbox, error)
	// ListAgents and ListGPUs list all agents and GPUs that the master knows, sorted by host
	// name. A later page may be answered from the data of the first page. GetAgent returns one agent by its ID; else 404. They are 502 if no master answers.
	ListAgents(ctx context.Context, laterPage bool) ([]api.AgentSummary, error)
	GetAgent(ctx context.Context, id string) (api.AgentDetail, error)
	ListGPUs(ctx context.Context, laterPage bool) ([]api.GPUView, error)
	// WatchEvents returns a channel of batches: first the states of all tasks, or
	// the events after q.After, then later events. The channel is closed when ctx
	// ends, when the backend publishes nothing further, or after a batch with
	// Missed. The channel is unbuffered, so that a slow reader occupies little
	// memory.
	WatchEvents(ctx context.Context, q request.EventQuery) (<-chan request.EventBatch, error)
	// ListQueue lists the jobs with waiting tasks in queue order, without those
	// that the requester may not see. Later pages keep the order of the first.
	ListQueue(ctx context.Context, by *access.Grant, p api.PageRequest) (api.QueueList, error)
	// ListHolds lists the holds of users and roles, users first, by name.
	ListHolds(ctx context.Context) ([]api.HoldView, error)
	// ListNotifications lists the notifications that were not delivered, oldest first.
	ListNotifications(ctx context.Context) ([]api.NotificationView, error)
	// ListRoles lists the scheduler's roles, the default role first.
	ListRoles(ctx context.Context) ([]api.RoleStatus, error)
	// GetHealth returns what the scheduler knows of itself. It does not fail while the process works.
	GetHealth(ctx context.Context) (api.HealthStatus, error)
	// CheckReady returns an error while the scheduler cannot answer requests.
	CheckReady(ctx context.Context) error
	metrics.SnapshotSource
	// AsOf returns when the answers were last known to be up to date; zero means
	// that they are current.
	AsOf() time.Time
}

// LeaderBackend answers what only the leader can: changes, which it records
// before it returns, and reads that depend on its offers or its memory.
type LeaderBackend interface {
	// SubmitJob returns the existing job if the owner has submitted one with the
	// same idempotency key.
	SubmitJob(ctx context.Context, by *access.Grant, spec job.Spec) (view api.JobView, role string, err error)
	// RerunJob submits the specification of a run of a job as its newest run. Like
	// SubmitJob, it returns the existing run for a repeated key.
	RerunJob(ctx context.Context, by *access.Grant, name string, q request.RerunQuery) (api.JobView, error)
	// ValidateJob checks a job or, if it has a schedule, a schedule as its submission
	// would. It records nothing.
	ValidateJob(ctx context.Context, by *access.Grant, spec job.Spec) (api.ValidatedJob, error)
	// ValidateUpdate checks the specification of a service as UpdateJob would. It records nothing.
	ValidateUpdate(ctx context.Context, c request.Change, spec job.Spec) (api.ValidatedJob, error)
	// EstimateStart estimates when a job that ValidateJob has returned would start if it were
	// submitted now; nil if no estimate is possible.
	EstimateStart(ctx context.Context, spec *job.Spec) (*api.StartEstimate, error)
	// FindWorkdir returns the size of the stored archive of a working folder.
	FindWorkdir(ctx context.Context, digest string) (api.StoredWorkdir, error)
	// StoreWorkdir stores the archive of a working folder; created is false if it was
	// stored before.
	StoreWorkdir(ctx context.Context, digest string, archive io.Reader) (w api.StoredWorkdir, created bool, err error)
	// OpenWorkdir opens the archive of a run for its agents, while tasks of the run
	// start. It returns a Problem for a wrong token.
	OpenWorkdir(ctx context.Context, run job.RunID, token string) (*os.File, error)
	// UpdateJob gives a service another specification. Its tasks are replaced step by step.
	UpdateJob(ctx context.Context, c request.Change, spec job.Spec) (api.JobView, error)
	// EditJob changes the specification of a job that has not ended by a function, which may be called several times.
	EditJob(ctx context.Context, c request.Change, name string, edit func(*job.Spec) error) (api.JobView, error)
	// ListArtifacts lists the artifacts of a job that were copied to the store.
	ListArtifacts(ctx context.Context, name string) (api.ArtifactList, error)
	// ReportAccounting sums up ended attempts, ListAttempts lists them by their ends, at
	// most limit, from the one after the key after on; next is the key of the last one
	// if more follow. Both omit what the requester may not see. AccountJob sums up those
	// of one run, and waits up to wait for what its agents have measured.
	ReportAccounting(ctx context.Context, by *access.Grant, q api.AccountingQuery) (api.AccountingReport, error)
	ListAttempts(ctx context.Context, by *access.Grant, q api.AccountingQuery, limit int, after []byte) (list []api.AccountedAttempt, next []byte, err error)
	AccountJob(ctx context.Context, name string, wait time.Duration) (api.JobAccounting, error)
	// KillJob ends a job. With force its tasks get no grace period, or lose the
	// rest of one.
	KillJob(ctx context.Context, c request.Change, name string, force bool) error
	// HoldJob keeps the waiting tasks of a job from being placed until ReleaseJob, which is no
	// error for a job that is not held. Both check that the requester may change the present hold.
	HoldJob(ctx context.Context, c request.Change, name, reason string) error
	ReleaseJob(ctx context.Context, c request.Change, name string) error
	// RequeueJob stops the placed tasks of a job, which are queued again.
	RequeueJob(ctx context.Context, c request.Change, name string, q api.RequeueRequest) error
	// HoldJobsOf does to all jobs of a user or a role what HoldJob does to one.
	HoldJobsOf(ctx context.Context, by *access.Grant, target job.HoldTarget, q api.HoldRequest) error
	ReleaseJobsOf(ctx context.Context, by *access.Grant, target job.HoldTarget) error
	// RetryNotification delivers a notification again at once, DropNotification gives it up. It is 404 if it was
	// delivered or dropped before.
	RetryNotification(ctx context.Context, id string) error
	DropNotification(ctx context.Context, id string) error
	// ScaleJob sets the number of a service's tasks.
	ScaleJob(ctx context.Context, c request.Change, name string, tasks int) error
	// StopTask kills a task. A service replaces it or, with retire, has one task less.
	StopTask(ctx context.Context, by *access.Grant, task string, retire bool) error
	// Exec runs a command in a running task's container until it ends or ctx
	// does, and returns its exit code: 128 plus the signal's number where a
	// signal ended it. Its errors are *api.Problem where there is no such job or
	// task, the task does not run, or it has no container.
	Exec(ctx context.Context, name string, task int, r api.ExecRequest, t api.Terminal) (int, error)
	// OpenPort connects to a port of a running task, as of job.Spec.ConnectAddresses. Its
	// errors are as of Exec, with CodePortClosed if the task accepts no connections.
	OpenPort(ctx context.Context, name string, task int, port string) (portrelay.HalfCloser, error)
	// TrackConnection counts a client that is connected to a job until done is called. It
	// delays the end of a job with an idle timeout.
	TrackConnection(name string) (done func())
	// SetQuota limits what a role may hold; nil restores the roles file's quota.
	SetQuota(ctx context.Context, c request.Change, role string, quota *string) (api.RoleStatus, error)
	// CordonAgent keeps new tasks off an agent, named by its id or hostname.
	// With drain it also stops the tasks that run there and queues them again.
	CordonAgent(ctx context.Context, c request.Change, agent, reason string, drain bool) error
	// UncordonAgent ends both. It is no error for an agent that is not cordoned.
	UncordonAgent(ctx context.Context, c request.Change, agent string) error
	// GetDemand returns the requirements of waiting tasks that would run if
	// machines were added.
	GetDemand(ctx context.Context) (api.DemandList, error)
	// AddSchedule records a schedule whose name is not in use.
	AddSchedule(ctx context.Context, by *access.Grant, spec job.Spec) (view api.ScheduleView, role string, err error)
	// ListSchedules lists all schedules by name, except for damaged ones.
	ListSchedules(ctx context.Context) ([]api.ScheduleView, error)
	// GetSchedule returns request.ErrScheduleDamaged, wrapped, for a schedule whose
	// document cannot be decoded.
	GetSchedule(ctx context.Context, name string) (api.ScheduleView, error)
	// EndSchedule removes a schedule. The jobs that it has submitted stay.
	EndSchedule(ctx context.Context, c request.Change, name string) error
	// ListUsage returns the GPU usage of running tasks, ordered by job, the
	// oldest first, and index, without the tasks that the requester may not see.
	// A task whose agent does not report usage has a note instead.
	ListUsage(ctx context.Context, by *access.Grant, q request.UsageQuery) (api.UsageList, error)
	// ClusterUsage returns how many GPUs were in use in the last hours, by type.
	ClusterUsage(ctx context.Context, hours int) (api.ClusterHistory, error)
	// JobUsage returns the usage of a job's GPUs over its whole run.
	JobUsage(ctx context.Context, name string) (api.JobUsageHistory, error)
}

// reads returns the backend for reads, or the error that answers the request.
func (s *apiServer) reads(ctx context.Context) (ReadBackend, error) {
	b := s.backend()
	if b.Reads == nil {
		return nil, b.Redirect(ctx)
	}
	return b.Reads, nil
}

// leader returns the leader's backend, or the error that redirects the request
// to the scheduler that leads.
func (s *apiServer) leader(ctx context.Context) (LeaderBackend, error) {
	b := s.backend()
	if b.Leader == nil {
		return nil, b.Redirect(ctx)
	}
	return b.Leader, nil
}

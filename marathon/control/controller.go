// Package control runs Marathon apps on a cluster. It reports instances to package deploy,
// executes its actions, and answers Marathon's API. It decides neither which instances run
// nor on which agents.
package control

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/api"
)

// ClusterBackend runs jobs and stores documents. Its changes are recorded when a method
// returns nil.
type ClusterBackend interface {
	// DescribeScheduler returns the base URL of the cluster's scheduler, its
	// framework id, and the default role of jobs.
	DescribeScheduler(ctx context.Context) (url, frameworkID, role string, err error)
	// SubmitJobs submits completed jobs: all of them or, if one is rejected, none.
	SubmitJobs(ctx context.Context, specs ...job.Spec) error
	// CheckAdmission returns why jobs may never be submitted, however much of the
	// cluster is free. err is why that could not be checked, as when the scheduler
	// stops leading. It changes nothing.
	CheckAdmission(ctx context.Context, specs ...job.Spec) (rejected, err error)
	// ScaleJob sets the number of tasks of a service. by is the user for its history, "" if it is unknown or if it is
	// no user's change.
	ScaleJob(ctx context.Context, name string, tasks int, by string) error
	// StopTasks ends tasks. Their services replace them, unless retire is set. by is as of ScaleJob.
	StopTasks(ctx context.Context, ids []string, retire bool, by string) error
	// EndBackoff ends the backoff of waiting tasks.
	EndBackoff(ctx context.Context, ids []string) error
	// KillJobs ends jobs. by is as of ScaleJob.
	KillJobs(ctx context.Context, by string, names ...string) error
	// MasterURL returns the base URL of the leading master, or "" without a
	// connection to it.
	MasterURL() string
	// ExplainWaiting returns why tasks of the jobs wait, by job. Jobs without
	// waiting tasks are left out.
	ExplainWaiting(ctx context.Context, names ...string) (map[string]job.WaitReason, error)
	// AbdicateLeadership makes the scheduler stop leading. It does not wait for that.
	AbdicateLeadership()
	// FindJob returns a job as it is recorded now; false if it does not exist.
	FindJob(name string) (job.Job, bool)
	// ListGroupJobs returns the jobs with a Group as they are recorded now, sorted by
	// name. The caller must not change them.
	ListGroupJobs(group string) []job.Job
	// WaitForChange waits for a change that TakeChanges has not returned. The
	// first call returns at once. It may return without a change.
	WaitForChange(ctx context.Context) error
	// TakeChanges returns the jobs that have changed since the last call by name, the
	// first time all jobs; removed jobs are included. It also returns the tasks that
	// have entered another state since then, in order, each as it was then.
	TakeChanges() (changed map[string]*job.Spec, moves []job.Task)
	// AgentFields returns the values of an agent that constraints compare, by
	// field, or nil if they are not known.
	AgentFields(agentID string) map[string]string
	// PutDocuments stores documents and deletes those that are empty.
	PutDocuments(ctx context.Context, documents map[string][]byte) error
	LoadDocuments(ctx context.Context) (map[string][]byte, error)
}

// ControllerConfig configures a Controller.
type ControllerConfig struct {
	// Settings are the defaults of definitions. An empty role means the
	// cluster's.
	Settings marathon.ParseSettings
	// Version is the release, and Flags are settings of the scheduler, for GetInfo.
	Version string
	Flags   SchedulerFlags
	// client sends readiness probes. The default is newProbeClient.
	client *http.Client
	// Authorize decides who may see and change the apps of which roles. With nil
	// every user may do everything.
	Authorize api.AuthorizeFunc
	// UserOf returns the name of the user of a request, "" if it is unknown. It may be nil.
	UserOf func(ctx context.Context) string
	// Clock is time.Now, except in tests.
	Clock func() time.Time
	Log   logrus.FieldLogger
}

// SchedulerFlags are settings of the scheduler that GetInfo returns. Any may be missing.
type SchedulerFlags struct {
	// FrameworkName, User and FailoverTimeout are the framework's in Mesos.
	FrameworkName, User string
	FailoverTimeout     time.Duration
	// Master is the address of the masters, JournalPath the path of the journal: a file or
	// zk://HOSTS/PATH, which schedulers share. SessionTimeout applies to its ZooKeeper sessions.
	Master, JournalPath string
	SessionTimeout      time.Duration
}

// Controller answers Marathon's API. While Run runs, it also runs the apps.
type Controller struct {
	cfg     ControllerConfig
	bus     *api.EventBus
	handler http.Handler

	// exclusive is set in the AppService that RunExclusive passes on: its methods
	// run in the loop already.
	exclusive *controlLoop

	mu   sync.Mutex
	loop *controlLoop // nil unless Run runs
}

// New returns a Controller that runs no apps yet.
func New(cfg ControllerConfig) *Controller {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.client == nil {
		cfg.client = newProbeClient()
	}
	c := &Controller{cfg: cfg, bus: api.NewEventBus()}
	var service api.AppService = c
	if cfg.Authorize != nil {
		service = api.WithAuthorization(c, cfg.Authorize, c.findJobRole)
	}
	c.handler = api.NewHandler(service, c.bus, cfg.Log)
	return c
}

// findJobRole returns the role of a job of the cluster.
func (c *Controller) findJobRole(name string) (role string, known bool) {
	k := c.exclusive
	if k == nil {
		c.mu.Lock()
		k = c.loop
		c.mu.Unlock()
	}
	if k == nil {
		return "", false
	}
	j, known := k.cluster.FindJob(name)
	if !known {
		return "", false
	}
	return j.Spec.Role, true
}

// Paths returns the path prefixes that ServeHTTP answers.
func (c *Controller) Paths() []string { return api.Paths() }

// ServeHTTP answers a request of Marathon's API.
func (c *Controller) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Run runs the apps in the cluster's documents until ctx ends, or until it cannot record its
// changes.
func (c *Controller) Run(ctx context.Context, cluster ClusterBackend) error {
	k, err := newControlLoop(ctx, &c.cfg, c.bus, cluster)
	if err != nil {
		return err
	}
	c.setLoop(k)
	defer c.bus.CloseStreams() // clients connect to the new leader
	defer c.setLoop(nil)
	return k.run(ctx)
}

func (c *Controller) setLoop(k *controlLoop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loop = k
}

// runInLoop runs do in the control loop and records its changes.
func (c *Controller) runInLoop(ctx context.Context, do func(k *controlLoop) error) error {
	if c.exclusive != nil {
		return do(c.exclusive)
	}
	c.mu.Lock()
	k := c.loop
	c.mu.Unlock()
	if k == nil {
		return unavailableError("this scheduler does not manage apps now: ask again")
	}
	return k.runInLoop(ctx, do)
}

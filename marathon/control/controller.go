// Package control keeps Marathon's apps on a cluster: it feeds what runs to
// package deploy, carries out what that says, and answers Marathon's API. It
// decides neither what is to run nor where.
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

// ClusterBackend runs jobs and keeps documents. What its methods do is recorded when
// they return nil.
type ClusterBackend interface {
	// DescribeScheduler tells where the cluster's scheduler answers, its framework's id and
	// the role of jobs that name none.
	DescribeScheduler(ctx context.Context) (url, frameworkID, role string, err error)
	// SubmitJobs submits the jobs, all or, where one may not be, none.
	SubmitJobs(ctx context.Context, specs ...job.Spec) error
	// CheckAdmission says whether jobs may be submitted at all, however full the
	// cluster is, and does nothing.
	CheckAdmission(ctx context.Context, specs ...job.Spec) error
	// ScaleJob has a service run so many tasks.
	ScaleJob(ctx context.Context, name string, tasks int) error
	// StopTasks ends tasks; their services start others in their places unless
	// they are retired.
	StopTasks(ctx context.Context, ids []string, retire bool) error
	// EndBackoff ends the pauses of tasks that wait.
	EndBackoff(ctx context.Context, ids []string) error
	// KillJobs ends jobs for good.
	KillJobs(ctx context.Context, names ...string) error
	FindJob(name string) (job.Job, bool)
	// WaitForChange waits until something has happened that Take has not told, at
	// first for nothing. It may return for nothing.
	WaitForChange(ctx context.Context) error
	// TakeChanges names the jobs that have changed since it was last called, the
	// first time those that were there, and tells in order which tasks have
	// come into other states meanwhile, each as it was then.
	TakeChanges() (names []string, moves []job.Task)
	// AgentFields are what constraints compare of an agent, by the names that they
	// have there; nil where nobody tells.
	AgentFields(agentID string) map[string]string
	// PutDocuments remembers documents and forgets those that are empty.
	PutDocuments(ctx context.Context, documents map[string][]byte) error
	LoadDocuments(ctx context.Context) (map[string][]byte, error)
}

// ControllerConfig says what a Control is part of.
type ControllerConfig struct {
	// Settings are those that definitions are read with. Where they name no
	// role it is the cluster's.
	Settings marathon.ParseSettings
	// Version is the release, for people.
	Version string
	// Client probes whether instances are ready; nil is one of its own.
	Client *http.Client
	// Authorize says who may see and change the apps of which roles; nil is
	// everybody, and all.
	Authorize api.AuthorizeFunc
	// Clock is time.Now unless a test has another.
	Clock func() time.Time
	Log   logrus.FieldLogger
}

// Controller answers Marathon's API. While Run runs, it keeps the apps.
type Controller struct {
	cfg     ControllerConfig
	bus     *api.EventBus
	handler http.Handler

	// exclusive, in the Service of a Turn, is whose turn it is: asked at once.
	exclusive *controlLoop

	mu   sync.Mutex
	loop *controlLoop // while Run runs
}

// New makes a Control that keeps nothing yet.
func New(cfg ControllerConfig) *Controller {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Client == nil {
		cfg.Client = newProbeClient()
	}
	c := &Controller{cfg: cfg, bus: api.NewEventBus()}
	var service api.AppService = c
	if cfg.Authorize != nil {
		service = api.WithAuthorization(c, cfg.Authorize)
	}
	c.handler = api.NewHandler(service, c.bus, cfg.Log)
	return c
}

// Paths are those that ServeHTTP answers, with all that is below them.
func (c *Controller) Paths() []string { return api.Paths() }

// ServeHTTP answers a request of Marathon's API.
func (c *Controller) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Run keeps the apps that the cluster's documents have until ctx ends, or
// what it does cannot be recorded.
func (c *Controller) Run(ctx context.Context, cluster ClusterBackend) error {
	k, err := newKeeper(ctx, &c.cfg, c.bus, cluster)
	if err != nil {
		return err
	}
	c.setLoop(k)
	defer c.bus.CloseStreams() // who listens is to find the one that leads now
	defer c.setLoop(nil)
	return k.run(ctx)
}

func (c *Controller) setLoop(k *controlLoop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loop = k
}

// runInLoop has do run where the apps are kept, and records what it changes.
func (c *Controller) runInLoop(ctx context.Context, do func(k *controlLoop) error) error {
	if c.exclusive != nil {
		return do(c.exclusive)
	}
	c.mu.Lock()
	k := c.loop
	c.mu.Unlock()
	if k == nil {
		return unavailableError("this scheduler keeps no apps now: ask again")
	}
	return k.runInLoop(ctx, do)
}

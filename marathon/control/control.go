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

// Cluster runs jobs and keeps documents. What its methods do is recorded when
// they return nil.
type Cluster interface {
	// Self tells where the cluster's scheduler answers, its framework's id and
	// the role of jobs that name none.
	Self(ctx context.Context) (url, frameworkID, role string, err error)
	// Submit submits the jobs, all or, where one may not be, none.
	Submit(ctx context.Context, specs ...job.Spec) error
	// Admit says whether jobs may be submitted at all, however full the
	// cluster is, and does nothing.
	Admit(ctx context.Context, specs ...job.Spec) error
	// Scale has a service run so many tasks.
	Scale(ctx context.Context, name string, tasks int) error
	// Stop ends tasks; their services start others in their places unless
	// they are retired.
	Stop(ctx context.Context, ids []string, retire bool) error
	// Wake ends the pauses of tasks that wait.
	Wake(ctx context.Context, ids []string) error
	// Kill ends jobs for good.
	Kill(ctx context.Context, names ...string) error
	Job(name string) (job.Job, bool)
	// Changed waits until something has happened that Take has not told, at
	// first for nothing. It may return for nothing.
	Changed(ctx context.Context) error
	// Take names the jobs that have changed since it was last called, the
	// first time those that were there, and tells in order which tasks have
	// come into other states meanwhile, each as it was then.
	Take() (names []string, moves []job.Task)
	// Fields are what constraints compare of an agent, by the names that they
	// have there; nil where nobody tells.
	Fields(agentID string) map[string]string
	// Put remembers documents and forgets those that are empty.
	Put(ctx context.Context, documents map[string][]byte) error
	Documents(ctx context.Context) (map[string][]byte, error)
}

// Config says what a Control is part of.
type Config struct {
	// Settings are those that definitions are read with. Where they name no
	// role it is the cluster's.
	Settings marathon.Settings
	// Version is the release, for people.
	Version string
	// Client probes whether instances are ready; nil is one of its own.
	Client *http.Client
	// May says who may see and change the apps of which roles; nil is
	// everybody, and all.
	May api.May
	// Clock is time.Now unless a test has another.
	Clock func() time.Time
	Log   logrus.FieldLogger
}

// Control answers Marathon's API. While Run runs, it keeps the apps.
type Control struct {
	cfg     Config
	bus     *api.Bus
	handler http.Handler

	// turn, in the Service of a Turn, is whose turn it is: asked at once.
	turn *keeper

	mu     sync.Mutex
	keeper *keeper // while Run runs
}

// New makes a Control that keeps nothing yet.
func New(cfg Config) *Control {
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Client == nil {
		cfg.Client = probing()
	}
	c := &Control{cfg: cfg, bus: api.NewBus()}
	var service api.Service = c
	if cfg.May != nil {
		service = api.Guarded(c, cfg.May)
	}
	c.handler = api.Handler(service, c.bus, cfg.Log)
	return c
}

// Paths are those that ServeHTTP answers, with all that is below them.
func (c *Control) Paths() []string { return api.Paths() }

// ServeHTTP answers a request of Marathon's API.
func (c *Control) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Run keeps the apps that the cluster's documents have until ctx ends, or
// what it does cannot be recorded.
func (c *Control) Run(ctx context.Context, cluster Cluster) error {
	k, err := newKeeper(ctx, &c.cfg, c.bus, cluster)
	if err != nil {
		return err
	}
	c.keeps(k)
	defer c.bus.Hangup() // who listens is to find the one that leads now
	defer c.keeps(nil)
	return k.run(ctx)
}

func (c *Control) keeps(k *keeper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeper = k
}

// ask has do run where the apps are kept, and records what it changes.
func (c *Control) ask(ctx context.Context, do func(k *keeper) error) error {
	if c.turn != nil {
		return do(c.turn)
	}
	c.mu.Lock()
	k := c.keeper
	c.mu.Unlock()
	if k == nil {
		return unavailable("this scheduler keeps no apps now: ask again")
	}
	return k.ask(ctx, do)
}

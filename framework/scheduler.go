package framework

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
)

// Scheduler runs jobs on the offers of a Mesos master.
type Scheduler struct {
	cfg    Config
	mu     sync.Mutex
	client *master.Client // while Run runs
}

// New makes a Scheduler; Run starts it.
func New(cfg Config) (*Scheduler, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Scheduler{cfg: cfg}, nil
}

// Run opens the journal and the API, subscribes, and schedules until ctx
// ends. Tasks go on running when it returns: a scheduler with the same
// journal takes them over, within the failover timeout.
func (s *Scheduler) Run(ctx context.Context) (err error) {
	if err := s.cfg.makeFolder(); err != nil {
		return err
	}
	store, err := journal.Open(s.cfg.JournalPath)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	past, err := store.Load()
	if err != nil {
		return err
	}
	listener, err := api.Listen(s.cfg.APIAddr)
	if err != nil {
		return err
	}
	if a, ok := listener.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		s.cfg.Log.WithField("addr", a.String()).Warn("the API has no passwords and listens beyond this machine")
	}
	client, err := master.New(s.masterConfig(past.FrameworkID))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer client.Close()
	s.mu.Lock()
	s.client = client
	s.mu.Unlock()

	l := &loop{
		st: sched.New(s.cfg.Sched, past.FrameworkID, past.Jobs), journal: store, post: client.Post,
		clock: s.cfg.Clock, log: s.cfg.Log, hub: newHub(),
		events: make(chan sched.Event, batch), requests: make(chan request),
	}
	s.cfg.Log.WithField("journal", s.cfg.JournalPath).WithField("jobs", len(past.Jobs)).Info("journal read")
	// The first part to end ends all: each is of no use without the others.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	back := &backend{loop: l, client: client, ended: ctx.Done()}
	var parts sync.WaitGroup
	for _, part := range []func(context.Context) error{
		l.run,
		func(ctx context.Context) error { return client.Run(ctx, l.emit(ctx)) },
		func(ctx context.Context) error { return api.Serve(ctx, listener, api.Handler(back, s.cfg.Log)) },
		func(ctx context.Context) error { return s.listAgents(ctx, client, l) },
	} {
		parts.Go(func() { cancel(part(ctx)) })
	}
	s.cfg.Ready(listener.Addr().String())
	parts.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("scheduler: %w", cause)
	}
	return nil
}

func (s *Scheduler) masterConfig(frameworkID string) master.Config {
	return master.Config{
		Masters: s.cfg.masters(), Name: s.cfg.Name, User: s.cfg.User, Role: s.cfg.Role, FrameworkID: frameworkID,
		FailoverTimeout: s.cfg.FailoverTimeout, ExecutorPath: s.cfg.ExecutorPath, Log: s.cfg.Log,
	}
}

// emit hands events to the loop, while there is one.
func (l *loop) emit(ctx context.Context) func(sched.Event) {
	return func(ev sched.Event) {
		select {
		case l.events <- ev:
		case <-ctx.Done():
		}
	}
}

// listEvery is how often the master is asked for its agents: what they have
// in all makes the reasons for which jobs wait.
const listEvery = 10 * time.Second

// listAgents keeps the State's list of agents fresh. A master that does not
// tell is asked again; jobs run without the list.
func (s *Scheduler) listAgents(ctx context.Context, client *master.Client, l *loop) error {
	ticks := time.NewTicker(listEvery)
	defer ticks.Stop()
	said := ""
	for {
		agents, err := client.Agents(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
			l.emit(ctx)(sched.Agents{Agents: agentsOf(agents)})
		case err.Error() != said:
			said = err.Error()
			s.cfg.Log.WithError(err).Debug("no list of agents")
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func agentsOf(list []master.Agent) []sched.Agent {
	var agents []sched.Agent
	for _, a := range list {
		if a.Active {
			agents = append(agents, sched.Agent{ID: a.ID, Hostname: a.Hostname, GPUs: a.GPUs, Types: a.Types, Inventory: a.Host.Devices})
		}
	}
	return agents
}

// Teardown ends the framework: the master kills all of its tasks and forgets
// it. Returns master.ErrNotConnected if there is no subscription.
func (s *Scheduler) Teardown(ctx context.Context) error {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client == nil {
		return master.ErrNotConnected
	}
	return client.Teardown(ctx)
}

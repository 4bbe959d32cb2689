package framework

import (
	"cmp"
	"context"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
)

// lead schedules with that journal until ctx ends or it cannot go on. While
// mayAct reports false nothing is sent to the master. It calls ready once it
// answers the API.
func (s *Scheduler) lead(ctx context.Context, store journal.Journal, mayAct func() bool, ready func()) error {
	store = s.cfg.counters.Journal(store)
	defer s.cfg.counters.Rest()
	past, err := store.Load(ctx)
	if err != nil {
		return err
	}
	cfg := s.cfg
	if cfg.Sched.Policy, err = s.policy(); err != nil {
		return err
	}
	cfg.WebURL = cmp.Or(cfg.WebURL, s.url) // the page is there
	client, err := cfg.newClient(past.FrameworkID)
	if err != nil {
		return err
	}
	defer client.Close()
	s.cfg.Log.WithField("journal", s.cfg.JournalPath).WithField("jobs", len(past.Jobs)).Info("journal read")
	l := newLoop(&cfg, past, store, func(op sched.Op) {
		if mayAct() {
			client.Post(op)
		}
	})
	ended, end := context.WithCancel(ctx)
	s.leads(client, l.emit(ended))
	defer s.leads(nil, nil)
	defer l.view.hub.close()
	defer s.show(nobody{why: "the scheduler is stopping"})
	defer end()
	leads := &leader{reader: reader{view: l.view, client: client}, loop: l, url: s.url, ended: ended.Done(), may: s.door.maySubmit, rescheduled: make(chan struct{}, 1)}
	leads.extension, _ = s.cfg.Extension.(Measured)
	told := newNews() // before anything can change
	if s.cfg.Extension != nil {
		l.view.watch(told)
	}
	known := census{}
	return together(ended, l.run,
		func(context.Context) error {
			s.show(leads)
			ready()
			return nil
		},
		func(ctx context.Context) error { return s.extend(ctx, leads, told) },
		leads.keepSchedules,
		leads.keepUsage,
		func(ctx context.Context) error { return client.Run(ctx, l.emit(ctx)) },
		func(ctx context.Context) error {
			return client.WatchAgents(ctx, func(list []master.Agent) {
				leads.fields.learn(list)
				leads.count(list)
				if known.changed(list) {
					l.view.hub.restock()
				}
				l.emit(ctx)(sched.Agents{Agents: agentsOf(list)})
			})
		},
	)
}

// extend runs the extension, if there is one.
func (s *Scheduler) extend(ctx context.Context, leads *leader, told *news) error {
	if s.cfg.Extension == nil {
		return nil
	}
	err := s.cfg.Extension.Lead(ctx, &Cluster{leader: leads, news: told})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// newClient makes the client of the master. Nobody needs offers that do not
// even hold an executor.
func (c *Config) newClient(frameworkID string) (*master.Client, error) {
	cfg := master.Config{
		Master: c.Master, ZKAuthFile: c.ZKAuthFile, TLS: c.TLS,
		Name: c.Name, User: c.User, FrameworkID: frameworkID, Hostname: c.Hostname, WebURL: c.WebURL,
		MinOffer: sched.DefaultOverhead(), FailoverTimeout: c.FailoverTimeout, ReregisterRemoved: c.ReregisterRemoved,
		ExecutorPath: c.ExecutorPath, Log: c.Log, Observer: c.counters,
	}
	for _, r := range c.Sched.Policy.Roles {
		cfg.Roles = append(cfg.Roles, r.Name)
	}
	if c.CredentialFile != "" {
		credential, warning, err := master.LoadCredential(c.CredentialFile)
		if err != nil {
			return nil, err
		}
		if warning != "" {
			c.Log.Warn(warning)
		}
		cfg.Credential = credential
	}
	return master.New(cfg)
}

func agentsOf(list []master.Agent) []sched.Agent {
	var agents []sched.Agent
	for _, a := range list {
		if a.Active || a.Draining {
			agents = append(agents, sched.Agent{
				ID: a.ID, Hostname: a.Hostname, GPUs: a.GPUs, Types: a.Types, Inventory: a.Host.Devices, Shared: a.Shared, Draining: a.Draining,
				Driver: a.Host.Driver, CUDA: a.Host.CUDA, Attributes: a.Attributes, Region: a.Region, Zone: a.Zone,
			})
		}
	}
	return agents
}

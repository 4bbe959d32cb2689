package framework

import (
	"cmp"
	"context"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
)

// runLeader schedules with that journal until ctx ends or it cannot go on. While
// mayAct reports false nothing is sent to the master. It calls ready once it
// answers the APIConfig.
func (s *Scheduler) runLeader(ctx context.Context, store journal.Journal, mayAct func() bool, ready func()) error {
	store = s.cfg.counters.WrapJournal(store)
	defer s.cfg.counters.ResetOffers()
	past, err := store.Load(ctx)
	if err != nil {
		return err
	}
	cfg := s.cfg
	if cfg.Sched.Policy, err = s.loadPolicy(); err != nil {
		return err
	}
	cfg.WebURL = cmp.Or(cfg.WebURL, s.url) // the page is there
	client, err := cfg.newMasterClient(past.FrameworkID)
	if err != nil {
		return err
	}
	defer client.Close()
	s.cfg.Log.WithField("journal", s.cfg.JournalPath).WithField("jobs", len(past.Jobs)).Info("journal read")
	l := newLoop(&cfg, past, store, func(op sched.Operation) {
		if mayAct() {
			client.PostOperation(op)
		}
	})
	ended, end := context.WithCancel(ctx)
	s.setLeadership(client, l.eventSender(ended))
	defer s.setLeadership(nil, nil)
	defer l.view.hub.closeListeners()
	defer s.setBackend(api.NewUnavailableBackend("the scheduler is stopping"))
	defer end()
	leads := &leaderBackend{clusterReader: clusterReader{view: l.view, client: client}, loop: l, url: s.url, stopped: ended.Done(), ownerMaySubmit: s.security.maySubmit, schedulesChanged: make(chan struct{}, 1)}
	leads.extension, _ = s.cfg.Extension.(MeasuredExtension)
	told := newChangeFeed() // before anything can change
	if s.cfg.Extension != nil {
		l.view.watchChanges(told)
	}
	known := inventoryDigest{}
	return runTogether(ended, l.runLoop,
		func(context.Context) error {
			s.setBackend(api.NewLeaderBackend(leads))
			ready()
			return nil
		},
		func(ctx context.Context) error { return s.runExtension(ctx, leads, told) },
		leads.runSchedules,
		leads.collectUsageHistory,
		func(ctx context.Context) error { return client.Run(ctx, l.eventSender(ctx)) },
		func(ctx context.Context) error {
			return client.WatchAgents(ctx, func(list []master.ListedAgent) {
				leads.agentFields.updateAgents(list)
				leads.countAgents(list)
				if known.updateAndCompare(list) {
					l.view.hub.publishInventoryChange()
				}
				l.eventSender(ctx)(sched.AgentsListed{Agents: schedulableAgents(list)})
			})
		},
	)
}

// runExtension runs the extension, if there is one.
func (s *Scheduler) runExtension(ctx context.Context, leads *leaderBackend, told *changeFeed) error {
	if s.cfg.Extension == nil {
		return nil
	}
	err := s.cfg.Extension.Lead(ctx, &ExtensionHandle{leader: leads, changes: told})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// newMasterClient makes the client of the master. Nobody needs offers that do not
// even hold an executor.
func (c *SchedulerConfig) newMasterClient(frameworkID string) (*master.Client, error) {
	cfg := master.ConnectionConfig{
		Master: c.Master, ZKAuthFile: c.ZKAuthFile, TLS: c.TLS,
		Name: c.Name, User: c.User, FrameworkID: frameworkID, Hostname: c.Hostname, WebURL: c.WebURL,
		MinOffer: placement.DefaultOverhead(), FailoverTimeout: c.FailoverTimeout, ReregisterRemoved: c.ReregisterRemoved,
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

func schedulableAgents(list []master.ListedAgent) []sched.Agent {
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

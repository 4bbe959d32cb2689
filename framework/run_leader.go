package framework

import (
	"context"

	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/clusterview"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// runLeader schedules with the journal store until ctx ends or an error occurs.
// While mayAct returns false, nothing is sent to the master. It calls ready once
// the leader serves the API.
func (s *Scheduler) runLeader(ctx context.Context, store journal.Journal, mayAct func() bool, ready func()) error {
	store = s.cfg.counters.WrapJournal(store)
	defer s.cfg.counters.ResetOffers()
	past, err := store.Load(ctx)
	if err != nil {
		return err
	}
	cfg := s.cfg
	cfg.Sched.Policy = s.loadPolicy()
	client, err := cfg.newMasterClient(past.FrameworkID, s.url, s.setMasterStatus, s.workdirURL)
	if err != nil {
		return err
	}
	defer client.Close()
	s.cfg.Log.WithField("journal", s.cfg.JournalPath).WithField("jobs", len(past.Jobs)).Info("journal read")
	if past.FrameworkID == "" && len(past.Jobs) == 0 && !s.cfg.ExpectNewJournal {
		s.cfg.Log.WithField("journal", s.cfg.JournalPath).Warn("there was no journal: a new one was created, without jobs")
	}
	s.setLeadershipStatus(Leading)
	loopConfig := leader.LoopConfig{Sched: cfg.Sched, Counters: cfg.counters, Clock: cfg.Clock, Log: cfg.Log, Accounting: s.accounting, Notifier: s.notifier}
	l := leader.NewLoop(loopConfig, past, store, func(op sched.Operation) {
		if mayAct() {
			client.PostOperation(op)
		}
	})
	stopped, stop := context.WithCancel(ctx)
	defer l.Model.CloseListeners()
	defer s.setBackend(apiserver.NewUnavailableBackend("the scheduler is stopping"))
	defer stop()
	gauges, _ := s.cfg.Extension.(leader.MeasuredExtension)
	leads := leader.New(l, leader.Config{
		Client:            client,
		URL:               s.url,
		Stopped:           stopped.Done(),
		OwnerMaySubmit:    s.security.maySubmit,
		Gauges:            gauges,
		Workdirs:          s.workdirs,
		Artifacts:         s.artifacts,
		OutputBytes:       cfg.OutputMiB << 20,
		AutoscaleInterval: cfg.AutoscaleInterval,
		SharedFolders:     cfg.SharedFolders,
	})
	client.SetWeights(queue.MesosWeights(cfg.Sched.Policy.Roles))
	s.setLeadership(client, func(p sched.Policy, applied func()) error {
		client.SetWeights(queue.MesosWeights(p.Roles))
		return leads.ChangePolicy(p, applied)
	})
	defer s.setLeadership(nil, nil)
	extend := func(context.Context) error { return nil }
	if s.cfg.Extension != nil {
		handle := leader.NewExtensionHandle(leads)
		extend = func(ctx context.Context) error { return s.runExtension(ctx, handle) }
	}
	s.setBackend(newLeaderBackend(leads, s.artifacts)) // requests wait until the loop takes them
	ready()
	return runTogether(ctx,
		func(ctx context.Context) error {
			defer stop() // requests that the loop has not taken must not wait: an extension waits for them before it returns
			return l.Run(ctx)
		},
		extend,
		leads.AwaitAbdication,
		leads.Schedules.RunSchedules,
		leads.Workdirs.CleanWorkdirs,
		leads.Artifacts.CopyArtifacts,
		leads.Output.StoreOutput,
		leads.Accounting.RunAccounting,
		leads.Notifications.DeliverNotifications,
		leads.Notifications.WatchIdleGPUs,
		leads.Usage.RecordHistory,
		leads.UsageHistory.RecordUsageHistory,
		leads.Autoscaler.RunAutoscaler,
		func(ctx context.Context) error { return client.Run(ctx, l.EventSender(ctx)) },
		func(ctx context.Context) error {
			return client.WatchAgents(ctx, func(list []master.ListedAgent) {
				leads.UpdateAgents(list)
				l.EventSender(ctx)(sched.AgentsListed{Agents: clusterview.SchedulableAgents(list)})
			})
		},
		func(ctx context.Context) error {
			return client.WatchQuotas(ctx, func(list []quota.MesosQuota) { l.EventSender(ctx)(sched.MesosQuotasListed{Quotas: list}) })
		},
		func(ctx context.Context) error { return client.MaintainWeights(ctx, mayAct) },
	)
}

// newLeaderBackend returns the API's backend of a leader.
func newLeaderBackend(leads *leader.Leader, store *artifacts.Store) apiserver.Backend {
	return apiserver.Backend{
		Reads: &apiserver.ReadBackend{
			Jobs:         leads,
			Names:        leads,
			TaskFiles:    leads,
			StoredOutput: store,
			Agents:       leads,
			Queue:        leads,
			Events:       leads,
			Status:       leads,
		},
		Leader: &apiserver.LeaderBackend{
			Jobs:          &leads.Jobs,
			Holds:         &leads.Holds,
			Operator:      &leads.Operator,
			Schedules:     &leads.Schedules,
			Notifications: &leads.Notifications,
			Streams:       &leads.Streams,
			Workdirs:      &leads.Workdirs,
			Artifacts:     &leads.Artifacts,
			Accounting:    &leads.Accounting,
			Usage:         leads.Usage,
			UsageHistory:  &leads.UsageHistory,
			Forecast:      leads,
		},
	}
}

// runExtension runs the extension. It returns the extension's error, or nil if ctx ended.
func (s *Scheduler) runExtension(ctx context.Context, handle *leader.ExtensionHandle) error {
	err := s.cfg.Extension.Lead(ctx, handle)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// newMasterClient returns a client of the master. Its minimum offer size is an
// executor's need: smaller offers cannot run any task. onStatus and workdirURL may be nil.
func (c *SchedulerConfig) newMasterClient(
	frameworkID, webURL string, onStatus func(master.ConnectionStatus), workdirURL func(job.RunID, string) (string, error),
) (*master.Client, error) {
	cfg := master.ConnectionConfig{
		Master: c.Master, ZKAuthFile: c.ZKAuthFile, TLS: c.TLS,
		Name: c.Name, User: c.User, ProcessUser: c.ProcessUser, FrameworkID: frameworkID, WebURL: webURL,
		MinOffer: placement.DefaultOverhead(), FailoverTimeout: c.FailoverTimeout, ReregisterRemoved: c.ReregisterRemoved,
		ExecutorPath: c.ExecutorPath, Log: c.Log, Observer: c.counters, OnStatus: onStatus,
		WorkdirURL: workdirURL,
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

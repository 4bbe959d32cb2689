package framework

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"mesos-gpu/framework/accounting"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/leader"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/notifier"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/workdirstore"
	"mesos-gpu/internal/unixsocket"
	"mesos-gpu/job"
)

// Scheduler runs jobs on the offers of a Mesos master. With a journal in ZooKeeper
// it is a standby until it is elected.
type Scheduler struct {
	cfg      SchedulerConfig
	active   atomic.Pointer[apiserver.Backend] // serves the API; replaced when leadership changes
	url      string                            // of the API, as advertised
	security apiSecurity
	limits   apiLimits
	workdirs *workdirstore.ArchiveStore
	// artifacts is nil if the operator permits none.
	artifacts *artifacts.Store
	// accounting stores the ends of attempts, also on a standby; nil if it is disabled.
	accounting *accounting.Recorder
	// notifier delivers notifications while this scheduler leads; nil if they are not configured.
	notifier *notifier.Notifier
	// roles contains the roles of the last valid roles file.
	roles atomic.Pointer[[]queue.Role]

	statusMu sync.Mutex
	status   Status // published with each change; guarded by statusMu

	// mu protects the fields below. They are nil unless this scheduler leads.
	mu     sync.Mutex
	client *master.Client
	// changePolicy is Leader.ChangePolicy.
	changePolicy func(p sched.Policy, applied func()) error
}

// New returns a Scheduler that Run starts. It fails if cfg is invalid or a file of
// cfg.API cannot be read.
func New(cfg SchedulerConfig) (*Scheduler, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	security, err := cfg.API.openSecurity(cfg.Sched.Policy.Permissions, cfg.Log)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{cfg: cfg, security: security, limits: cfg.API.fitLimits(descriptorLimit(), cfg.Log)}
	s.workdirs = workdirstore.NewArchiveStore(cfg.Workdirs, cfg.WorkdirsMiB<<20, cfg.KeepWorkdirs)
	if s.artifacts, err = artifacts.NewStore(cfg.Artifacts, cfg.artifactLimits()); err != nil {
		return nil, fmt.Errorf("artifacts: %w", err)
	}
	if cfg.Accounting != NoAccounting {
		s.accounting = accounting.New(accounting.RecorderConfig{
			Path:   cfg.Accounting,
			Keep:   cfg.KeepAccounting,
			MaxMiB: cfg.AccountingMiB,
			Clock:  cfg.Clock,
			Log:    cfg.Log,
		})
	}
	if cfg.Notifications != "" {
		settings, err := notifier.LoadSettings(cfg.Notifications)
		if err != nil {
			return nil, err
		}
		s.notifier = notifier.New(settings, notifier.NotifierConfig{Clock: cfg.Clock, Log: cfg.Log})
	}
	roles, err := s.readRoles(s.notificationTargets())
	if err != nil {
		return nil, err
	}
	s.roles.Store(&roles)
	s.setBackend(apiserver.NewUnavailableBackend("the scheduler is starting"))
	return s, nil
}

// setBackend makes b serve the API from the next request on.
func (s *Scheduler) setBackend(b apiserver.Backend) { s.active.Store(&b) }

func (s *Scheduler) currentBackend() apiserver.Backend { return *s.active.Load() }

// Run opens the journal and the API, subscribes, and schedules until ctx ends.
// Tasks keep running after it returns: a scheduler that opens the same journal
// within the failover timeout takes them over. With a journal in ZooKeeper the
// scheduler schedules only while it is the leader, and serves reads as a standby.
func (s *Scheduler) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, s.security.closeFiles()) }()
	lead := s.runElection
	if !s.cfg.isReplicated() {
		if err := s.cfg.makeJournalFolder(); err != nil {
			return err
		}
		file, err := journal.OpenBolt(s.cfg.JournalPath)
		if err != nil {
			return err
		}
		store := s.cfg.WrapJournal(file)
		defer func() { err = errors.Join(err, store.Close()) }()
		lead = func(ctx context.Context) error { return s.leadAlone(ctx, store) }
	}
	listener, err := apiserver.Listen(s.cfg.APIAddr)
	if err != nil {
		return err
	}
	if err := s.cfg.API.checkListenAddress(listener.Addr(), s.cfg.Log); err != nil {
		return errors.Join(err, listener.Close())
	}
	s.url = s.cfg.advertisedURL(listener.Addr())
	limited := apiserver.LimitConnections(listener, apiserver.ConnectionLimits{
		Total: s.limits.connections, PerAddress: s.limits.connectionsPerAddress, Usage: s.cfg.counters,
	})
	serveSocket, err := s.openSocket(limited)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	listener = s.security.wrapListener(limited)
	handler := s.newHandler()
	err = runTogether(ctx, lead, s.runAccounting, func(ctx context.Context) error {
		return apiserver.Serve(ctx, listener, s.security.wrapHandler(handler, s.url, s.cfg.Log), s.cfg.Log, limited.TrackState)
	}, func(ctx context.Context) error { return serveSocket(ctx, handler) }, func(context.Context) error {
		s.cfg.Ready(listener.Addr().String())
		return nil
	})
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	return nil
}

// openSocket listens on the configured unix socket, if any, and returns the function that
// serves it until ctx ends. Its connections count with those of limited.
func (s *Scheduler) openSocket(limited *apiserver.LimitedListener) (serve func(context.Context, http.Handler) error, err error) {
	if s.cfg.API.Socket == "" {
		return func(context.Context, http.Handler) error { return nil }, nil
	}
	socket, err := unixsocket.Listen(s.cfg.API.Socket)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, h http.Handler) error {
		return apiserver.Serve(ctx, limited.Share(socket), s.security.wrapSocketHandler(h, s.url, s.cfg.Log), s.cfg.Log, limited.TrackState)
	}, nil
}

// runAccounting stores the ends of attempts until ctx ends, unless that is disabled.
func (s *Scheduler) runAccounting(ctx context.Context) error {
	if s.accounting == nil {
		return nil
	}
	return s.accounting.Run(ctx)
}

// leadAlone leads with a journal in a file. After an abdication it leads again, with a new
// subscription and the state of the journal: no other scheduler can use the file.
func (s *Scheduler) leadAlone(ctx context.Context, store journal.Journal) error {
	for {
		err := s.runLeader(ctx, store, func() bool { return true }, func() {})
		if !errors.Is(err, leader.ErrAbdicated) {
			return err
		}
		s.cfg.Log.WithError(err).Warn("this scheduler leads again, because no other one can use its journal")
	}
}

// runTogether runs the parts concurrently. When one fails or ctx ends, it cancels
// all of them, because none is useful without the others. It returns the first
// error after all have returned, or nil if ctx ended before.
func runTogether(ctx context.Context, parts ...func(context.Context) error) error {
	group, together := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error {
			err := part(together)
			if ctx.Err() != nil {
				return nil // parts may return why ctx ended
			}
			return err
		})
	}
	return group.Wait()
}

// Teardown removes the framework: the master kills all of its tasks and deletes
// its state. It returns master.ErrNotConnected if the scheduler is not subscribed.
func (s *Scheduler) Teardown(ctx context.Context) error {
	s.mu.Lock()
	client := s.client
	s.mu.Unlock()
	if client == nil {
		return master.ErrNotConnected
	}
	return client.Teardown(ctx)
}

// workdirURL returns the URL from which agents fetch the working folder of a run.
func (s *Scheduler) workdirURL(run job.RunID, digest string) (string, error) {
	if _, err := s.workdirs.Find(digest, s.cfg.Clock()); err != nil {
		return "", err
	}
	token, err := s.workdirs.Token(run, digest)
	return apiserver.WorkdirURL(s.url, run, token), err
}

func (s *Scheduler) setLeadership(c *master.Client, changePolicy func(p sched.Policy, applied func()) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client, s.changePolicy = c, changePolicy
}

// Package leader implements the scheduler while it is the leader. One loop applies
// events to the state of package sched, records the changes in the journal and then
// carries out the operations. API requests, schedules and extensions use the same
// loop. It never carries out an operation whose cause is not recorded.
//
// Three kinds of data must not be confused. The State of package sched belongs to the loop's goroutine and may be ahead
// of the journal by one batch. The read model contains only what is recorded, and any goroutine may read it. What is
// measured, such as usage and agents, is only in memory and is collected again after a failover.
//
// Who leads is decided by package election; package framework starts and ends the goroutines of a term.
package leader

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/autoscale/loads"
	"mesos-gpu/framework/clusterview"
	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/usage"
	"mesos-gpu/framework/workdirstore"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Leader is one term as leader. It serves recorded data from the read model, and everything else from the loop's State and
// the master. Its parts change the cluster and work in the background. It starts with empty caches and is never used again
// after the term.
//
// Its methods and those of its parts are called by many goroutines at a time. Fields without another note are set by New and
// never change.
type Leader struct {
	// Reader serves the requests that need neither the State nor a change.
	clusterview.Reader
	// loop owns the State. Requests reach it through runInLoop.
	loop *Loop
	// url is the URL of this scheduler's API.
	url string
	// stopped is closed when this scheduler stops leading. The loop takes no requests from then on.
	stopped <-chan struct{}
	// sharedFolders are Config.SharedFolders.
	sharedFolders []string
	// extension exports metrics; nil without such an extension.
	extension MeasuredExtension
	// agentFields and gpuCounts describe the agents of the master's last list. UpdateAgents replaces their
	// contents; any goroutine may read them.
	agentFields clusterview.AgentFieldCache
	gpuCounts   clusterview.GPUCountCache
	// queuePages caches the queue orders that clients page through. Only functions that run in the loop use it.
	queuePages readmodel.QueuePages
	// startEstimates caches the queue's estimates, computed again after startEstimateLifetime.
	startEstimates *startEstimateCache
	// inventory detects changes between agent lists. Only UpdateAgents uses it, which one goroutine calls.
	inventory clusterview.InventoryDigest
	// abdicated is closed when a client has requested that this scheduler stops leading. abdicateOnce closes it once,
	// however often that is requested.
	abdicated    chan struct{}
	abdicateOnce sync.Once

	Jobs          JobCommands
	Holds         HoldCommands
	Operator      OperatorCommands
	Schedules     Schedules
	Streams       TaskStreams
	Workdirs      Workdirs
	Artifacts     ArtifactCopies
	Output        OutputCopies
	Accounting    AccountingReports
	Notifications Notifications
	UsageHistory  UsageHistory
	Autoscaler    Autoscaler
	// Usage reads the GPU usage of running tasks and records its history.
	Usage *usage.Collector
}

// Config configures a Leader.
type Config struct {
	// Client is subscribed to the master while this scheduler leads.
	Client *master.Client
	// URL is the URL of this scheduler's API.
	URL string
	// Stopped is closed when the loop has ended: it takes no more requests.
	Stopped <-chan struct{}
	// OwnerMaySubmit reports whether the owner of a schedule may still submit to
	// its role; nil permits everything.
	OwnerMaySubmit func(owner, role string) bool
	// Gauges exports the extension's metrics; nil if it has none.
	Gauges MeasuredExtension
	// Workdirs stores the archives of working folders.
	Workdirs *workdirstore.ArchiveStore
	// AutoscaleInterval is the time between two measurements of the load of services, 0 for
	// the default.
	AutoscaleInterval time.Duration
	// SharedFolders are folders of file systems that all agents and the users' machines mount at the same paths, and OwnerHome. Tasks
	// may start in folders below.
	SharedFolders []string
	// Artifacts stores files of ended tasks; nil if the operator has named no store.
	Artifacts *artifacts.Store
	// OutputBytes bounds the output of an attempt that is stored with them; 0 stores none.
	OutputBytes int64
}

// New returns the leader of a term with loop l.
func New(l *Loop, cfg Config) *Leader {
	b := &Leader{
		Reader: clusterview.Reader{Model: l.Model, Client: cfg.Client}, loop: l, url: cfg.URL, stopped: cfg.Stopped, sharedFolders: cfg.SharedFolders,
		extension: cfg.Gauges, abdicated: make(chan struct{}), startEstimates: newStartEstimateCache(),
	}
	b.Usage = usage.New(b.Model, b.ReadUsage)
	b.Jobs.leader = b
	b.Holds.leader = b
	b.Operator.leader = b
	b.Schedules = Schedules{leader: b, ownerMaySubmit: cfg.OwnerMaySubmit, changed: make(chan struct{}, 1)}
	b.Streams.leader = b
	b.Streams.tunnels.run, b.Streams.tunnels.idleTime = b.Streams.runCommand, tunnelIdleTime
	b.Workdirs = Workdirs{leader: b, store: cfg.Workdirs}
	b.Artifacts = ArtifactCopies{leader: b, store: cfg.Artifacts}
	b.Output = OutputCopies{leader: b, store: cfg.Artifacts, limit: cfg.OutputBytes}
	b.Accounting = AccountingReports{leader: b, recorder: l.accounting}
	b.Notifications = Notifications{leader: b, notifier: l.notifier}
	b.UsageHistory.leader = b
	b.Autoscaler.leader = b
	b.Autoscaler.loads = loads.New(b.Usage.AverageDuty)
	b.Autoscaler.interval = cmp.Or(cfg.AutoscaleInterval, DefaultAutoscaleInterval)
	return b
}

// runInLoop runs step in the loop and, once its changes are recorded, read. It waits
// for both and returns read's error, or why the changes could not be recorded. A nil step changes nothing.
//
// Both functions hold up the whole scheduler: they must neither wait nor do I/O, and a nested call of runInLoop would
// never return. They may use the State, but must not keep parts of it that it changes later.
//
// Once the loop has taken the request, the end of ctx has no effect: the change is recorded and the caller learns the
// result. An error before that means that nothing has happened, so that a client can send the request again.
func (l *Leader) runInLoop(ctx context.Context, step func(apply func(sched.Event)), read func(*sched.State) error) error {
	answered := make(chan error, 1)
	r := loopRequest{apply: step, reply: func(st *sched.State, err error) {
		if err == nil {
			err = read(st)
		}
		answered <- err
	}}
	select {
	case l.loop.requests <- r:
		return journalProblem(<-answered) // the loop answers every request that it receives
	case <-l.stopped:
		return api.NewUnavailable("the scheduler is stopping")
	case <-ctx.Done(): // also when the scheduler stops
		return api.NewUnavailable("the request ended before the scheduler took it: %v", context.Cause(ctx))
	}
}

// applyInLoop runs step in the loop. If step fails, it returns that error; otherwise
// it calls read once the events that step applied are recorded. Between the checks of step and the events that it
// applies nothing else changes the State.
//
// An event takes effect as soon as it is applied: if step fails afterwards, the event is recorded nevertheless. A step
// therefore checks everything first. SubmitDue is the exception: its error concerns other schedules than its events.
func (l *Leader) applyInLoop(ctx context.Context, step func(st *sched.State, apply func(sched.Event)) error, read ...func(*sched.State) error) error {
	var refused error
	applyAndForget := func(apply func(sched.Event)) func(sched.Event) {
		return func(e sched.Event) {
			l.startEstimates.forget(l.loop.clock(), e)
			apply(e)
		}
	}
	return l.runInLoop(ctx, func(apply func(sched.Event)) { refused = step(l.loop.state, applyAndForget(apply)) }, func(st *sched.State) error {
		if refused != nil {
			return refused
		}
		for _, f := range read {
			if err := f(st); err != nil {
				return err
			}
		}
		return nil
	})
}

// ChangePolicy applies a valid policy. It calls applied in the loop, together with the change, and
// returns when requests that follow are subject to the policy. It fails if this scheduler stops
// leading; applied may then not have been called.
func (l *Leader) ChangePolicy(p sched.Policy, applied func()) error {
	return l.runInLoop(context.Background(), func(apply func(sched.Event)) {
		apply(sched.PolicyChanged{Policy: p})
		applied()
	}, func(*sched.State) error { return nil })
}

// journalProblem converts the error of a failed commit to the client's problem. It distinguishes a change that may be
// recorded although the journal has not confirmed it from one that is certainly not recorded. After either the loop
// has stopped.
func journalProblem(err error) error {
	switch {
	case errors.Is(err, journal.ErrUnknown):
		return api.NewProblemf(http.StatusServiceUnavailable, "%w: check whether it was done before you ask again", err)
	case errors.Is(err, journal.ErrFenced), errors.Is(err, zkconn.ErrLost), errors.Is(err, context.Canceled):
		return api.NewUnavailable("%w", err)
	}
	return err
}

// JobCommands change jobs, and check what a change would do.
type JobCommands struct {
	leader *Leader
	// rates limits how many jobs users submit in a minute. Only functions that run in the loop use it.
	rates submissionRates
}

// SubmitJob submits a job and returns it once it is recorded. For a repeated idempotency
// key it returns the job that was submitted first. It returns the role of the job also if it is refused, if the role is known.
func (c *JobCommands) SubmitJob(ctx context.Context, by *access.Grant, spec job.Spec) (view api.JobView, role string, err error) {
	return c.submitRun(ctx, by, spec, job.RunID{})
}

// RerunJob submits the specification of a run as a new run of the job, with the owner and the client key.
func (c *JobCommands) RerunJob(ctx context.Context, by *access.Grant, name string, q request.RerunQuery) (view api.JobView, err error) {
	old, ok := c.leader.Model.CopyJob(name)
	if !ok {
		return view, api.UnknownJob(name)
	}
	if err := checkReadable(by, old.Spec); err != nil {
		return view, err
	}
	retry := job.RunID{}
	if q.Failed {
		retry = old.RunID()
	}
	spec := old.SubmittableSpec()
	spec.Owner, spec.ClientKey = by.UserName(), q.ClientKey
	view, _, err = c.submitRun(ctx, by, spec, retry)
	return view, err
}

// checkReadable returns an error if the requester may not read the output of a job. The new run would have its environment,
// its files, and the output of its tasks that have finished.
func checkReadable(by *access.Grant, old *job.Spec) error {
	return request.CheckPermission(by, by.CanReadOutput(old.Role, old.Owner), access.Operate, "role "+old.Role)
}

// submitRun submits a job. If retry is not zero, only the tasks of that run which did not finish are run.
func (c *JobCommands) submitRun(ctx context.Context, by *access.Grant, spec job.Spec, retry job.RunID) (view api.JobView, role string, err error) {
	sub := &submission{origin: byUser, spec: &spec, by: by, retry: retry}
	// The error does not matter if the job was submitted before: a repeated request has the answer of the first one.
	precheck := c.leader.checkBeforeLoop(ctx, sub)
	var run job.RunID
	again, other := false, 0
	err = c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if old, ok := st.JobByClientKey(&spec); ok {
			run, again, role = old.RunID(), true, old.Spec.Role
			return checkSameSubmission(by, old.Spec, &spec)
		}
		if precheck != nil {
			return precheck
		}
		err := c.leader.checkInLoop(st, sub)
		role = spec.Role
		if err != nil {
			return err
		}
		other = st.RunWithOtherSpec(&spec)
		apply(sched.SubmitJob{Spec: spec, RetryRun: retry})
		run, _, _ = st.NewestOfOwner(spec.Owner, spec.Name)
		return nil
	}, func(st *sched.State) error {
		if view, err = c.leader.Model.JobView(run.String()); err != nil {
			return err
		}
		view.DiffersFrom = other
		view.AlreadySubmitted, view.Warnings = again, warnOfSubmission(st, view.Spec)
		if st.CountQueuedJobs() <= maxQueuedToExplain {
			view.WaitReason = c.leader.pendingText(st.PendingReasons(run), run)
		}
		return nil
	})
	return view, role, err
}

// maxQueuedToExplain is the number of queued jobs up to which the answer to a
// submission includes why the job waits. Computing the reasons visits all queued
// jobs; with more of them the client can request the reason separately.
const maxQueuedToExplain = 100

// checkSpace returns a Problem if the journal has no space for another job or schedule. It
// runs in the loop.
func (l *Leader) checkSpace() error {
	if l.loop.full != nil {
		return api.NewUnavailable("%w", l.loop.full)
	}
	return nil
}

// checkSameSubmission returns an error unless a repeated submission with the same
// idempotency key has the same body and may see the job submitted first.
func checkSameSubmission(by *access.Grant, old, spec *job.Spec) error {
	if err := request.CheckRoleAccess(by, access.Submit, old.Role); err != nil {
		return err
	}
	if old.ClientKey.Digest != spec.ClientKey.Digest {
		return api.NewProblemf(http.StatusUnprocessableEntity,
			"%s %q: job %q was submitted by this key and another body: use a key for each submission",
			api.IdempotencyKey, spec.ClientKey.Key, old.Name).WithCode(api.CodeIdempotencyKeyReused, spec.ClientKey.Key)
	}
	return nil
}

// checkTypes returns an error for an unknown GPU type. It requests the agents from
// the master only if a name is not an NVIDIA product.
func (c *JobCommands) checkTypes(ctx context.Context, t gpu.TypeSelector) error {
	unknown := clusterview.UnknownTypes(t)
	if len(unknown) == 0 {
		return nil
	}
	agents, err := c.leader.Client.ListAgents(ctx)
	if err != nil {
		return api.NewProblemf(http.StatusServiceUnavailable, "gpu_type %q is not an NVIDIA product, and the agents cannot be listed to find it: %v", unknown[0], err)
	}
	if err := clusterview.CheckUnknownTypes(unknown, agents); err != nil {
		return api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
	}
	return nil
}

// pendingText returns why a job is pending, as a text for users; "" if reasons do not contain the job. Without a master,
// the last offers determine the reasons, and the missing connection is reported instead of missing resources.
func (l *Leader) pendingText(reasons map[job.RunID]placement.PendingReason, run job.RunID) string {
	r, ok := reasons[run]
	if !ok {
		return ""
	}
	if !l.loop.connected.Load() {
		r.Needs, r.Available = "a connection to a Mesos master", "there is none"
	}
	return r.Text()
}

// explainPending sets the wait reasons of pending jobs, with at most one request to the loop. The reasons come from
// the State and may be newer than the views: a job that was placed meanwhile has none.
func (l *Leader) explainPending(ctx context.Context, views []api.JobView) error {
	var waiting []job.RunID
	for i := range views {
		if views[i].HasWaiting {
			waiting = append(waiting, views[i].RunID())
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	var reasons map[job.RunID]placement.PendingReason
	err := l.runInLoop(ctx, nil, func(st *sched.State) error {
		reasons = st.PendingReasons(waiting...)
		if len(views) == 1 {
			views[0].Warnings = warnOfSubmission(st, views[0].Spec)
		}
		return nil
	})
	for i := range views {
		if views[i].HasWaiting { // an earlier run of the name has none
			views[i].WaitReason = l.pendingText(reasons, views[i].RunID())
		}
	}
	return err
}

// ListJobs returns the jobs that match the query, with the reasons why they are pending.
func (l *Leader) ListJobs(ctx context.Context, q request.JobQuery) (api.JobList, error) {
	list, err := l.Model.ListJobs(q)
	if err != nil {
		return list, err
	}
	return list, l.explainPending(ctx, list.Jobs)
}

// GetJob returns a job, with the reason why it is pending and an estimate of its start. It also returns the job if the
// loop does not answer, together with the error.
func (l *Leader) GetJob(ctx context.Context, name string) (api.JobView, error) {
	view, err := l.Model.JobView(name)
	if err != nil {
		return view, err
	}
	view.Autoscaling = l.Autoscaler.autoscalingStatus(view.RunID())
	views := []api.JobView{view}
	err = l.explainPending(ctx, views)
	if err == nil && views[0].HasWaiting {
		views[0].Start = l.estimateStarts(ctx, views[0].Submitted).of(views[0].RunID())
	}
	return views[0], err
}

// KillJob kills a job, if it matches the condition of the change. It does not wait until the tasks have ended. With
// force the grace period of the tasks is skipped. It is no error if the job has ended.
func (c *JobCommands) KillJob(ctx context.Context, change request.Change, name string, force bool) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := checkJobMatches(change, st, name); err != nil {
			return err
		}
		apply(sched.KillJob{Job: name, By: change.By.UserName(), Force: force})
		return nil
	})
}

// checkJobMatches returns an error if the job does not exist, or if it does not match
// the request's If-Match header.
func checkJobMatches(change request.Change, st *sched.State, name string) error {
	j, ok := st.Job(name)
	if !ok {
		return api.UnknownJob(name)
	}
	return change.CheckIfMatch(request.JobETag(j, j.WantedTasks()))
}

// readinessTimeout is how long the loop may take for one iteration, including the
// write to the journal.
const readinessTimeout = 5 * time.Second

// CheckReady sends a request through the loop, which stops when it cannot write the journal. runInLoop does not return
// while the loop waits for the disk, so a goroutine waits for it; it ends with the loop.
func (l *Leader) CheckReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readinessTimeout)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- l.runInLoop(ctx, nil, func(*sched.State) error { return nil }) }()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done(): // the disk does not respond
		return api.NewUnavailable("the scheduler has written its journal for more than %s", readinessTimeout)
	}
}

// GetHealth returns the leader's health: the framework id, and whether it is connected to a
// master.
func (l *Leader) GetHealth(context.Context) (api.HealthStatus, error) {
	return api.HealthStatus{Connected: l.loop.connected.Load(), FrameworkID: l.Model.CurrentFrameworkID(), Role: api.Leader, LeaderURL: l.url}, nil
}

// gaugesTimeout is how long an extension may take to export its metrics.
const gaugesTimeout = 2 * time.Second

// MetricsSnapshot returns the metrics of the recorded state. It omits the extension's
// metrics if they are not available in time.
func (l *Leader) MetricsSnapshot(ctx context.Context) (metrics.Snapshot, error) {
	s := l.Model.MetricsSnapshot(l.loop.counters, l.loop.clock())
	s.GPUs, s.Accounting = l.gpuCounts.Current(), l.Accounting.recorder.Figures()
	if s.Notifications = l.Notifications.notifier.Figures(); s.Notifications != nil {
		s.Notifications.Pending, s.Notifications.GivenUp = l.Model.CountNotifications()
	}
	s.IsLeader, s.Connected = true, l.loop.connected.Load()
	if figures := l.loop.roleShares.Load(); figures != nil {
		s.RoleShares, s.HostShares, s.RecentUsages, s.Budgets = figures.shares, figures.hosts, figures.recent, figures.budgets
	}
	if l.extension == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, gaugesTimeout)
	defer cancel()
	var gauges []metrics.ExtensionGauge
	err := l.extension.Gauges(ctx, func(name, help string, labels map[string]string, value float64) {
		gauges = append(gauges, metrics.ExtensionGauge{Name: name, Help: help, Labels: labels, Value: value})
	})
	if err != nil {
		l.loop.log.WithError(err).Warn("the extension's metrics are left out")
		return s, nil
	}
	s.Gauges = gauges
	return s, nil
}

// AsOf returns the zero time: the leader's data is always current.
func (l *Leader) AsOf() time.Time { return time.Time{} }

package replay

import (
	"cmp"
	"fmt"
	"iter"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// ReplaySettings are the cluster and the scheduler of a replay. Zero fields have defaults.
type ReplaySettings struct {
	Agents []ReplayAgent
	// Sched are the scheduler's settings. It keeps no ended jobs.
	Sched sched.SchedulerSettings
	// RunTimes is the source of the run times that the scheduler sees.
	RunTimes RunTimeSource
	// Short, if set, gives jobs that declare a run time up to it priority 1, and makes all others preemptible.
	Short time.Duration
	// MinRunTime is the min_run_time of preemptible jobs. SaveTime, if set, warns them, and all jobs if GPUs may be reclaimed: a
	// task whose end is requested saves its state for this time before it ends, and its next attempt loads the state for as long
	// and continues.
	MinRunTime, SaveTime time.Duration
	// PreemptAfter is the preempt_after of jobs with priority 1.
	PreemptAfter time.Duration
	// Seed shuffles the agents.
	Seed int64
	// JobEnded, if set, is called when a job ends, with the times of its start and end.
	JobEnded func(w *JobRecord, started, ended time.Duration)
	// TaskEnded, if set, is called when an attempt of a task ends, with the times of its start and end.
	TaskEnded func(spec *job.Spec, started, ended time.Duration)
	// EqualMesosWeights makes the master divide offers as Mesos does if no weights of roles are set there.
	EqualMesosWeights bool
	// EstimateEvery, if set, estimates the start of every nth job that waits, with predicted run times.
	EstimateEvery int
	// OwnShare, if set, has the completion times of jobs in a replay of their role alone on its share of the agents, by name. The
	// result then has the finish-time fairness of these jobs.
	OwnShare map[string]time.Duration
	// Stop, if set, is called at each instant. An error ends the replay.
	Stop func() error
}

// epoch is the scheduler's time at the start of the record. Task ids contain it.
func epoch() time.Time { return time.Unix(1_500_000_000, 0).UTC() }

// MemoryLimit is the limit that programs with a replay set by debug.SetMemoryLimit. Below it the heap may grow to twice the
// used memory; near it the garbage collector runs more often, for up to half of the processor time. It suffices for a million tasks on
// 100,000 agents.
const MemoryLimit = 1960 << 20

// RunReplay replays records, which must be sorted by arrival. It returns an error if they are not, or if the scheduler does
// what a master would reject.
func RunReplay(cfg ReplaySettings, works iter.Seq[JobRecord]) (*ReplayResult, error) {
	r, err := newReplay(cfg)
	if err != nil {
		return nil, err
	}
	return r.runAll(works)
}

// runAll advances from one moment to the next until nothing is due. Jobs that arrive at a moment are submitted before its
// other events. At the end, jobs that wait are offered everything again, because filters may have ended without an event.
func (r *jobReplay) runAll(works iter.Seq[JobRecord]) (*ReplayResult, error) {
	next, stop := iter.Pull(works)
	defer stop()
	coming, more := next()
	for {
		at, due := r.nextMoment()
		switch {
		case more && (!due || coming.ArrivesAt <= at):
			at = coming.ArrivesAt
		case !due:
			if r.retryWaiting() {
				continue
			}
			return r.result.finishReplay(r), nil
		}
		if r.cfg.Stop != nil {
			if err := r.cfg.Stop(); err != nil {
				return nil, err
			}
		}
		if at < r.now {
			return nil, fmt.Errorf("job %q arrives at %s, after one at %s: sort the record by arrival", coming.Spec.Name, at, r.now)
		}
		r.result.advanceTo(r, at)
		r.now = at
		for more && coming.ArrivesAt == at {
			r.submitJob(coming)
			coming, more = next()
		}
		if r.runInstant(); r.err != nil {
			return nil, fmt.Errorf("at %s: %w", r.now, r.err)
		}
	}
}

// jobReplay is a replay in progress.
type jobReplay struct {
	// cfg is the argument of RunReplay, completed.
	cfg ReplaySettings
	// now is the virtual time since the start of the record. It advances from event to event.
	now time.Duration
	// state is the scheduler, master the cluster that it schedules on.
	state  *sched.State
	master *virtualMaster
	// timeline has what happens next: ends of tasks, returns of offers, cycles.
	timeline *timeline
	// jobs have arrived and not ended, by name.
	jobs map[string]*liveJob
	// running are the tasks that hold resources, by task id.
	running map[string]*runningTask
	// waiting counts the tasks that have arrived and hold no resources.
	waiting int
	// changedAt is when a job last arrived, or a task last started or ended. offeredAt is when resources were last
	// offered.
	changedAt, offeredAt time.Duration
	// launchesAtRetry is result.Launches at the last call of retryWaiting.
	launchesAtRetry int
	// submitted are the jobs that arrived at this instant. estimateNext counts the jobs that waited.
	submitted    []*liveJob
	estimateNext int
	// result is completed at the end of the replay.
	result *ReplayResult
	// err ends the replay.
	err error
}

// liveJob is a job that has not ended.
type liveJob struct {
	// spec is the scheduler's from the submission on. It is not modified then.
	spec      *job.Spec
	arrivesAt time.Duration
	runTimes  TaskRunTimes
	// role is an index in virtualMaster.roles.
	role int
	// tasksLeft counts the tasks that have not ended.
	tasksLeft int
	// started is set when the first task starts, at the time start.
	started bool
	start   time.Duration
	// predicted is the run time that the scheduler predicts; 0 if there is no prediction.
	predicted time.Duration
	// estimate predicts its start, nil without an estimate.
	estimate *startEstimate
	// saved is the work in the saved state of each task, nil if none was saved.
	saved []time.Duration
}

// runningTask is a task that holds resources.
type runningTask struct {
	id    string
	job   *liveJob
	index int // in the job
	// agent and role are indices in virtualMaster.agents and roles.
	agent, role int
	// resources include the overhead of an executor.
	resources resourceSet
	start     time.Duration
	// loading is the time to load a saved state before it works. work is its progress when it ends, without work that
	// is not saved.
	loading, work time.Duration
	// saving is set while it saves its state. Then it does not work.
	saving bool
	// ended is set when the task ends before its run time, so that its event in the timeline has no effect.
	ended bool
}

const (
	// offerInterval is how often free resources are offered, like Mesos's --allocation_interval.
	offerInterval = time.Second
	// sampleLength is the length of one sample of the GPUs in use.
	sampleLength = time.Hour
)

// newReplay completes the settings. It sets the limits for submissions so high that no record reaches them.
func newReplay(cfg ReplaySettings) (*jobReplay, error) {
	cfg.Sched.MaxEndedTasks, cfg.Sched.MaxLiveTasks, cfg.Sched.MaxSpecBytes, cfg.Sched.LimitShare = 1, 1<<31, 1<<40, 100
	cfg.Sched.HoldOffers = cmp.Or(cfg.Sched.HoldOffers, sched.DefaultHoldOffers)
	cfg.Sched.PredictRunTimes = cfg.RunTimes == RunTimePredicted
	roles := cfg.Sched.Policy.Roles
	if len(roles) == 0 {
		roles = []queue.Role{{}}
	}
	if err := cfg.Sched.Policy.Validate(); err != nil {
		return nil, err
	}
	m, err := newVirtualMaster(cfg.Agents, roles, cfg.Seed)
	if err != nil {
		return nil, err
	}
	if cfg.EqualMesosWeights {
		m.equalizeWeights()
	}
	r := &jobReplay{
		cfg: cfg, state: sched.New(cfg.Sched, sched.RecoveredState{}), master: m, timeline: newTimeline(),
		jobs: map[string]*liveJob{}, running: map[string]*runningTask{},
		launchesAtRetry: -1, offeredAt: -offerInterval, result: newReplayResult(&cfg, m),
	}
	r.stepScheduler(sched.Subscribed{FrameworkID: "replay"})
	return r, nil
}

// nextMoment returns when the next event of the timeline is due, or false without one.
func (r *jobReplay) nextMoment() (time.Duration, bool) {
	if r.timeline.Len() == 0 {
		return 0, false
	}
	return r.timeline.list[0].at, true
}

// runInstant handles all events that are due now, then lets the scheduler answer the offers.
func (r *jobReplay) runInstant() {
	for r.err == nil && r.timeline.Len() > 0 && r.timeline.list[0].at <= r.now {
		switch m := r.timeline.nextEvent(); {
		case m.kind == taskEnds && !m.task.ended && !m.task.saving:
			m.task.work = r.now - m.task.start - m.task.loading
			r.endTask(m.task, job.Finished)
		case m.kind == taskSaved:
			r.endTask(m.task, job.Killed)
		case m.kind == offersDue:
			r.allocateNow()
		case m.kind == tickDue:
			r.stepScheduler(sched.Tick{})
		}
	}
	r.stepScheduler(sched.Cycle{})
	for _, l := range r.submitted {
		r.estimateStart(l)
	}
	r.submitted = r.submitted[:0]
	r.result.Cycles++
}

// stepScheduler applies an event to the scheduler and performs its operations.
func (r *jobReplay) stepScheduler(ev sched.Event) {
	if r.err != nil {
		return
	}
	r.result.Steps++
	ops := r.state.Step(epoch().Add(r.now), ev)
	r.state.TakeChanges() // no journal is kept
	for _, op := range ops {
		r.perform(op)
	}
}

// perform does what a master and its agents would do for an operation of the scheduler, without delay. A killed task ends
// without the time of its kill_grace. Operations that have no effect here, such as acknowledgements, are ignored.
func (r *jobReplay) perform(op sched.Operation) {
	switch o := op.(type) {
	case sched.AcceptOffers:
		r.acceptOffers(&o)
	case sched.DeclineOffers:
		for _, d := range o.Offers {
			if of := r.withdrawOffer(d.OfferID); of != nil {
				r.refuseOffer(of, o.Refuse)
			}
		}
	case sched.ReviveOffers:
		r.master.reviveRoles(o.Roles)
		r.allocateAt(r.now)
	case sched.SuppressOffers:
		r.master.suppressRoles(o.Roles)
	case sched.KillTask:
		if t := r.running[o.TaskID]; t != nil {
			r.killTask(t, o.Grace > 0)
		}
	case sched.ReconcileTasks:
		for _, t := range o.Tasks {
			if r.running[t.TaskID] != nil {
				r.stepScheduler(sched.TaskUpdate{TaskID: t.TaskID, AgentID: t.AgentID, State: job.Running, Reconciled: true})
			}
		}
	}
}

// withdrawOffer ends an offer. It ends the replay and returns nil if there is no such offer.
func (r *jobReplay) withdrawOffer(id string) *pendingOffer {
	o, err := r.master.withdrawOffer(id)
	if err != nil && r.err == nil {
		r.err = err
	}
	return o
}

// quietPeriod is how long after the last change all refused resources have been offered again. After that, only
// another change can make the scheduler take them.
func (r *jobReplay) quietPeriod() time.Duration {
	return max(r.cfg.Sched.HoldOffers, 0) + placement.RefuseSoon + 2*offerInterval
}

// refuseOffer keeps resources from a role for some time, and schedules when they are offered again: now to other roles, and
// to this one at the end of the filter, unless nothing has changed for so long that the scheduler would refuse them again.
func (r *jobReplay) refuseOffer(o *pendingOffer, d time.Duration) {
	r.master.addFilter(o, r.now, d)
	last := r.changedAt + r.quietPeriod()
	if len(r.master.roles) > 1 && r.now <= last {
		r.allocateAt(r.now) // to another role
	}
	if until := r.now + d; until <= last {
		r.allocateAt(until)
	}
}

// allocateAt schedules an allocation at a time, or at the next one that the interval allows.
func (r *jobReplay) allocateAt(at time.Duration) {
	every := offerInterval
	if rest := at % every; rest > 0 {
		at += every - rest
	}
	r.timeline.schedule(timelineEvent{at: max(at, r.offeredAt+every), kind: offersDue})
}

// allocateNow offers what is free, or schedules it if the interval since the last time has not passed. The scheduler may hold
// offers for a time, and gets a tick at its end.
func (r *jobReplay) allocateNow() {
	if r.now < r.offeredAt+offerInterval {
		r.allocateAt(r.now)
		return
	}
	r.offeredAt = r.now
	if offers := r.master.allocateOffers(r.now); len(offers) > 0 {
		r.result.Offers += len(offers)
		r.stepScheduler(sched.OffersReceived{Offers: offers})
		r.timeline.schedule(timelineEvent{at: r.now + max(r.cfg.Sched.HoldOffers, 0), kind: tickDue})
	}
}

// markChanged records that work has arrived, started or ended. The scheduler revives offers at most once a second, so it
// needs a tick afterwards.
func (r *jobReplay) markChanged() {
	r.changedAt = r.now
	r.timeline.schedule(timelineEvent{at: r.now - r.now%time.Second + time.Second, kind: tickDue})
}

// retryWaiting offers everything once more to jobs that still wait at the end. It returns false if the previous retry
// started no task.
func (r *jobReplay) retryWaiting() bool {
	if r.waiting == 0 || r.launchesAtRetry == r.result.Launches || r.err != nil {
		return false
	}
	r.launchesAtRetry = r.result.Launches
	r.now += time.Minute
	r.markChanged()
	r.master.reviveRoles(nil)
	r.allocateAt(r.now)
	return true
}

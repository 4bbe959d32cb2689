package replay

import (
	"cmp"
	"fmt"
	"iter"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// ReplaySettings says what is replayed on. The zero value of a field takes its
// default.
type ReplaySettings struct {
	Agents []ReplayAgent
	// Sched is as in production. It remembers no ended jobs.
	Sched sched.SchedulerSettings
	// Interval is how often what has become free is offered: Mesos's own
	// --allocation_interval, 1 s.
	Interval time.Duration
	// RunTimeSource says how long the scheduler is told that jobs run.
	RunTimes RunTimeSource
	// Short, where set, gives jobs that are said to end within it priority 1
	// over all others, which it makes preemptible.
	Short time.Duration
	// Seed orders the agents.
	Seed int64
	// SampleEvery is how long one sample of the GPUs in use lasts: 1 h.
	SampleEvery time.Duration
	// JobEnded, where set, is called with each job that ends, and when it started
	// and ended.
	JobEnded func(w *JobRecord, started, ended time.Duration)
	// Stop, where set, is asked at each moment whether to go on: an error ends
	// the replay with it.
	Stop func() error
}

// epoch is the time of the record's first moment, for the scheduler: task ids
// hold it.
func epoch() time.Time { return time.Unix(1_500_000_000, 0).UTC() }

// RunReplay replays works, which come in the order of their arrival. It fails on
// works out of order, and where the scheduler does what a master would refuse.
func RunReplay(cfg ReplaySettings, works iter.Seq[JobRecord]) (*ReplayResult, error) {
	r, err := newReplay(cfg)
	if err != nil {
		return nil, err
	}
	return r.runAll(works)
}

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

// jobReplay is a run in the making.
type jobReplay struct {
	cfg             ReplaySettings
	now             time.Duration
	state           *sched.State
	master          *virtualMaster
	timeline        *timeline
	jobs            map[string]*liveJob
	running         map[string]*runningTask // by task id
	waiting         int                     // tasks
	changedAt       time.Duration           // when work last came, started or ended
	offeredAt       time.Duration           // when was last offered
	launchesAtRetry int                     // when again was last tried
	history         *runTimeHistory
	result          *ReplayResult
	err             error
}

// liveJob is a job that has not ended.
type liveJob struct {
	JobRecord
	role      int
	tasksLeft int // tasks
	started   bool
	start     time.Duration
	predicted time.Duration
}

// runningTask is a task that holds a place.
type runningTask struct {
	id          string
	job         *liveJob
	agent, role int
	resources   resourceSet
	start       time.Duration
	ended       bool
}

func newReplay(cfg ReplaySettings) (*jobReplay, error) {
	cfg.Interval, cfg.SampleEvery = cmp.Or(cfg.Interval, time.Second), cmp.Or(cfg.SampleEvery, time.Hour)
	cfg.Sched.MaxEndedTasks, cfg.Sched.MaxLiveTasks = 1, 1<<31
	cfg.Sched.HoldOffers = cmp.Or(cfg.Sched.HoldOffers, sched.DefaultHoldOffers)
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
	r := &jobReplay{
		cfg: cfg, state: sched.New(cfg.Sched, sched.RecoveredState{}), master: m, timeline: newTimeline(),
		jobs: map[string]*liveJob{}, running: map[string]*runningTask{}, history: newRunTimeHistory(),
		launchesAtRetry: -1, offeredAt: -cfg.Interval, result: newReplayResult(&cfg, m),
	}
	r.stepScheduler(sched.Subscribed{FrameworkID: "replay"})
	return r, nil
}

func (r *jobReplay) nextMoment() (time.Duration, bool) {
	if r.timeline.Len() == 0 {
		return 0, false
	}
	return r.timeline.list[0].at, true
}

// runInstant does what is due now, then has the scheduler answer the offers.
func (r *jobReplay) runInstant() {
	for r.err == nil && r.timeline.Len() > 0 && r.timeline.list[0].at <= r.now {
		switch m := r.timeline.nextEvent(); {
		case m.kind == taskEnds && !m.task.ended:
			r.endTask(m.task, job.Finished)
		case m.kind == offersDue:
			r.allocateNow()
		case m.kind == tickDue:
			r.stepScheduler(sched.Tick{})
		}
	}
	r.stepScheduler(sched.Cycle{})
	r.result.Cycles++
}

// stepScheduler has the scheduler take an event in, and does what it says.
func (r *jobReplay) stepScheduler(ev sched.Event) {
	if r.err != nil {
		return
	}
	r.result.Steps++
	ops := r.state.Step(epoch().Add(r.now), ev)
	r.state.TakeChanges() // nobody keeps a journal
	for _, op := range ops {
		r.perform(op)
	}
}

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
			r.endTask(t, job.Killed)
		}
	case sched.ReconcileTasks:
		for _, t := range o.Tasks {
			if r.running[t.TaskID] != nil {
				r.stepScheduler(sched.TaskUpdate{TaskID: t.TaskID, AgentID: t.AgentID, State: job.Running, Reconciled: true})
			}
		}
	}
}

func (r *jobReplay) withdrawOffer(id string) *pendingOffer {
	o, err := r.master.withdrawOffer(id)
	if err != nil && r.err == nil {
		r.err = err
	}
	return o
}

// quietPeriod is how long after the last change everything refused has been offered
// once more. What the scheduler does not want then, it does not want until
// something changes.
func (r *jobReplay) quietPeriod() time.Duration {
	return max(r.cfg.Sched.HoldOffers, 0) + refuseSoon + 2*r.cfg.Interval
}

// refuseSoon is how long the scheduler refuses what it may want soon.
const refuseSoon = 5 * time.Second

func (r *jobReplay) refuseOffer(o *pendingOffer, d time.Duration) {
	r.master.addFilter(o.agent, o.role, r.now, d)
	last := r.changedAt + r.quietPeriod()
	if len(r.master.roles) > 1 && r.now <= last {
		r.allocateAt(r.now) // to another role
	}
	if until := r.now + d; until <= last {
		r.allocateAt(until)
	}
}

// allocateAt has the master offer at that time, or as soon after as it does.
func (r *jobReplay) allocateAt(at time.Duration) {
	every := r.cfg.Interval
	if rest := at % every; rest > 0 {
		at += every - rest
	}
	r.timeline.schedule(timelineEvent{at: max(at, r.offeredAt+every), kind: offersDue})
}

func (r *jobReplay) allocateNow() {
	if r.now < r.offeredAt+r.cfg.Interval {
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

// markChanged says that work has come, started or ended. The scheduler asks for
// offers once a second at most, so a tick must follow.
func (r *jobReplay) markChanged() {
	r.changedAt = r.now
	r.timeline.schedule(timelineEvent{at: r.now - r.now%time.Second + time.Second, kind: tickDue})
}

// retryWaiting gives jobs that wait at the end another chance, and reports whether
// there is one: what never finds a place is never done.
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

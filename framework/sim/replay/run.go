package replay

import (
	"cmp"
	"fmt"
	"iter"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// Config says what is replayed on. The zero value of a field takes its
// default.
type Config struct {
	Agents []Agent
	// Sched is as in production. It remembers no ended jobs.
	Sched sched.Config
	// Interval is how often what has become free is offered: Mesos's own
	// --allocation_interval, 1 s.
	Interval time.Duration
	// RunTimes says how long the scheduler is told that jobs run.
	RunTimes RunTimes
	// Short, where set, gives jobs that are said to end within it priority 1
	// over all others, which it makes preemptible.
	Short time.Duration
	// Seed orders the agents.
	Seed int64
	// Every is how long one sample of the GPUs in use lasts: 1 h.
	Every time.Duration
	// Ended, where set, is called with each job that ends, and when it started
	// and ended.
	Ended func(w *Work, started, ended time.Duration)
	// Stop, where set, is asked at each moment whether to go on: an error ends
	// the replay with it.
	Stop func() error
}

// begin is the time of the record's first moment, for the scheduler: task ids
// hold it.
func begin() time.Time { return time.Unix(1_500_000_000, 0).UTC() }

// Run replays works, which come in the order of their arrival. It fails on
// works out of order, and where the scheduler does what a master would refuse.
func Run(cfg Config, works iter.Seq[Work]) (*Result, error) {
	r, err := newReplay(cfg)
	if err != nil {
		return nil, err
	}
	return r.run(works)
}

func (r *replay) run(works iter.Seq[Work]) (*Result, error) {
	next, stop := iter.Pull(works)
	defer stop()
	coming, more := next()
	for {
		at, due := r.nextMoment()
		switch {
		case more && (!due || coming.Arrives <= at):
			at = coming.Arrives
		case !due:
			if r.again() {
				continue
			}
			return r.result.finish(r), nil
		}
		if r.cfg.Stop != nil {
			if err := r.cfg.Stop(); err != nil {
				return nil, err
			}
		}
		if at < r.now {
			return nil, fmt.Errorf("job %q arrives at %s, after one at %s: sort the record by arrival", coming.Spec.Name, at, r.now)
		}
		r.result.pass(r, at)
		r.now = at
		for more && coming.Arrives == at {
			r.arrive(coming)
			coming, more = next()
		}
		if r.instant(); r.err != nil {
			return nil, fmt.Errorf("at %s: %w", r.now, r.err)
		}
	}
}

// replay is a run in the making.
type replay struct {
	cfg      Config
	now      time.Duration
	state    *sched.State
	master   *master
	line     *timeline
	jobs     map[string]*live
	running  map[string]*running // by task id
	waiting  int                 // tasks
	changed  time.Duration       // when work last came, started or ended
	offered  time.Duration       // when was last offered
	launched int                 // when again was last tried
	history  *history
	result   *Result
	err      error
}

// live is a job that has not ended.
type live struct {
	Work
	role      int
	left      int // tasks
	started   bool
	start     time.Duration
	predicted time.Duration
}

// running is a task that holds a place.
type running struct {
	id          string
	job         *live
	agent, role int
	room        room
	start       time.Duration
	gone        bool
}

func newReplay(cfg Config) (*replay, error) {
	cfg.Interval, cfg.Every = cmp.Or(cfg.Interval, time.Second), cmp.Or(cfg.Every, time.Hour)
	cfg.Sched.KeepEnded, cfg.Sched.MaxLive = 1, 1<<31
	cfg.Sched.HoldOffers = cmp.Or(cfg.Sched.HoldOffers, sched.DefaultHoldOffers)
	roles := cfg.Sched.Policy.Roles
	if len(roles) == 0 {
		roles = []sched.Role{{}}
	}
	if err := sched.CheckPolicy(cfg.Sched.Policy); err != nil {
		return nil, err
	}
	m, err := newMaster(cfg.Agents, roles, cfg.Seed)
	if err != nil {
		return nil, err
	}
	r := &replay{
		cfg: cfg, state: sched.New(cfg.Sched, sched.Past{}), master: m, line: newTimeline(),
		jobs: map[string]*live{}, running: map[string]*running{}, history: newHistory(),
		launched: -1, offered: -cfg.Interval, result: newResult(&cfg, m),
	}
	r.step(sched.Subscribed{FrameworkID: "replay"})
	return r, nil
}

func (r *replay) nextMoment() (time.Duration, bool) {
	if r.line.Len() == 0 {
		return 0, false
	}
	return r.line.list[0].at, true
}

// instant does what is due now, then has the scheduler answer the offers.
func (r *replay) instant() {
	for r.err == nil && r.line.Len() > 0 && r.line.list[0].at <= r.now {
		switch m := r.line.next(); {
		case m.what == ends && !m.task.gone:
			r.end(m.task, job.Finished)
		case m.what == allocates:
			r.allocate()
		case m.what == ticks:
			r.step(sched.Tick{})
		}
	}
	r.step(sched.Cycle{})
	r.result.Cycles++
}

// step has the scheduler take an event in, and does what it says.
func (r *replay) step(ev sched.Event) {
	if r.err != nil {
		return
	}
	r.result.Steps++
	ops := r.state.Step(begin().Add(r.now), ev)
	r.state.Drain() // nobody keeps a journal
	for _, op := range ops {
		r.do(op)
	}
}

func (r *replay) do(op sched.Op) {
	switch o := op.(type) {
	case sched.Accept:
		r.accept(&o)
	case sched.Decline:
		for _, d := range o.Offers {
			if of := r.withdraw(d.OfferID); of != nil {
				r.refuse(of, o.Refuse)
			}
		}
	case sched.Revive:
		r.master.revive(o.Roles)
		r.allocateAt(r.now)
	case sched.Suppress:
		r.master.suppress(o.Roles)
	case sched.KillTask:
		if t := r.running[o.TaskID]; t != nil {
			r.end(t, job.Killed)
		}
	case sched.Reconcile:
		for _, t := range o.Tasks {
			if r.running[t.TaskID] != nil {
				r.step(sched.Update{TaskID: t.TaskID, AgentID: t.AgentID, State: job.Running, Reconciled: true})
			}
		}
	}
}

func (r *replay) withdraw(id string) *offer {
	o, err := r.master.withdraw(id)
	if err != nil && r.err == nil {
		r.err = err
	}
	return o
}

// quiet is how long after the last change everything refused has been offered
// once more. What the scheduler does not want then, it does not want until
// something changes.
func (r *replay) quiet() time.Duration {
	return max(r.cfg.Sched.HoldOffers, 0) + refuseSoon + 2*r.cfg.Interval
}

// refuseSoon is how long the scheduler refuses what it may want soon.
const refuseSoon = 5 * time.Second

func (r *replay) refuse(o *offer, d time.Duration) {
	r.master.refuse(o.agent, o.role, r.now, d)
	last := r.changed + r.quiet()
	if len(r.master.roles) > 1 && r.now <= last {
		r.allocateAt(r.now) // to another role
	}
	if until := r.now + d; until <= last {
		r.allocateAt(until)
	}
}

// allocateAt has the master offer at that time, or as soon after as it does.
func (r *replay) allocateAt(at time.Duration) {
	every := r.cfg.Interval
	if rest := at % every; rest > 0 {
		at += every - rest
	}
	r.line.add(moment{at: max(at, r.offered+every), what: allocates})
}

func (r *replay) allocate() {
	if r.now < r.offered+r.cfg.Interval {
		r.allocateAt(r.now)
		return
	}
	r.offered = r.now
	if offers := r.master.allocate(r.now); len(offers) > 0 {
		r.result.Offers += len(offers)
		r.step(sched.Offers{Offers: offers})
		r.line.add(moment{at: r.now + max(r.cfg.Sched.HoldOffers, 0), what: ticks})
	}
}

// change says that work has come, started or ended. The scheduler asks for
// offers once a second at most, so a tick must follow.
func (r *replay) change() {
	r.changed = r.now
	r.line.add(moment{at: r.now - r.now%time.Second + time.Second, what: ticks})
}

// again gives jobs that wait at the end another chance, and reports whether
// there is one: what never finds a place is never done.
func (r *replay) again() bool {
	if r.waiting == 0 || r.launched == r.result.Launches || r.err != nil {
		return false
	}
	r.launched = r.result.Launches
	r.now += time.Minute
	r.change()
	r.master.revive(nil)
	r.allocateAt(r.now)
	return true
}

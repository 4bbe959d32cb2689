package leader

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
)

// tickInterval is how often the State learns that time has passed.
const tickInterval = time.Second

// maxBatch bounds how many events are recorded with one write to the disk.
const maxBatch = 256

// loopRequest is something that people want of the State. Both functions run in
// the loop: step applies events, done runs once those are recorded.
type loopRequest struct {
	apply func(apply func(sched.Event))
	reply func(st *sched.State, err error)
}

// Loop owns the State: one goroutine applies events, records what they
// changed, and only then has the operations performed and requests answered.
type Loop struct {
	state    *sched.State
	journal  journal.Journal
	Model    *readmodel.Model // what is recorded, for readers
	post     func(sched.Operation)
	clock    func() time.Time
	log      logrus.FieldLogger
	events   chan sched.Event
	requests chan loopRequest
	// connected is the State's, for those who do not want to ask the loop.
	connected atomic.Bool

	nextCycle  time.Time        // until when no cycle is begun
	cycleTimer <-chan time.Time // then one is; nil where none has been put off

	heapBallast []byte // see heapBallastSize

	ops     []sched.Operation
	replies []func(*sched.State, error)
	loopMetrics
}

// heapBallastSize bytes are held and never touched: they take no memory, but the
// collector waits until as much has been allocated. Requests leave garbage, and
// a scheduler of few jobs, of a few MiB, would be gone through again and again.
const heapBallastSize = 32 << 20

// LoopConfig is what a schedulerLoop needs besides its journal.
type LoopConfig struct {
	Sched    sched.SchedulerSettings
	Counters *metrics.SchedulerCounters
	Clock    func() time.Time
	Log      logrus.FieldLogger
}

// NewLoop returns a loop that continues from the journal's contents. It passes
// operations to post once the journal has recorded what they follow from.
func NewLoop(cfg LoopConfig, past journal.JournalContents, store journal.Journal, post func(sched.Operation)) *Loop {
	v := readmodel.New(past) // a copy, before the State takes the jobs over
	return &Loop{
		loopMetrics: newLoopMetrics(cfg, past),
		state:       sched.New(cfg.Sched, sched.RecoveredState(past)), journal: store, Model: v, post: post,
		clock: cfg.Clock, log: cfg.Log, events: make(chan sched.Event, maxBatch), requests: make(chan loopRequest),
		heapBallast: make([]byte, heapBallastSize),
	}
}

// Run goes on until ctx ends, or the journal cannot be written: what is not
// recorded must not be done.
func (l *Loop) Run(ctx context.Context) error {
	ticks := time.NewTicker(tickInterval)
	defer ticks.Stop()
	for {
		select {
		case ev := <-l.events:
			l.applyEvent(ev)
		case r := <-l.requests:
			l.applyRequest(r)
		case <-ticks.C:
			l.applyEvent(sched.Tick{})
			l.recordGPUTime()
		case <-l.cycleTimer:
			l.cycleTimer = nil
		case <-ctx.Done():
			return nil
		}
		l.takeBatch()
		l.runCycle()
		if err := l.commitBatch(ctx); err != nil {
			return err
		}
	}
}

// longCycle is from when cycles leave time for what people ask.
const longCycle = time.Millisecond

// runCycle answers the offers that have come. It goes through all that waits:
// where that takes long, the next one waits three times as long, so that most
// of the time is left to take and record what comes meanwhile.
func (l *Loop) runCycle() {
	began := time.Now()
	if wait := l.nextCycle.Sub(began); wait > 0 {
		if l.cycleTimer == nil {
			l.cycleTimer = time.After(wait)
		}
		return
	}
	plans := l.state.CountPlans()
	l.applyEvent(sched.Cycle{})
	if l.state.CountPlans() > plans {
		l.counters.CountPlan(time.Since(began))
	}
	if took := time.Since(began); took > longCycle {
		l.nextCycle = began.Add(4 * took)
	}
}

// takeBatch takes what else has come, so that a burst costs one write.
func (l *Loop) takeBatch() {
	for range maxBatch {
		select {
		case ev := <-l.events:
			l.applyEvent(ev)
		case r := <-l.requests:
			l.applyRequest(r)
		default:
			return
		}
	}
}

func (l *Loop) applyEvent(ev sched.Event) {
	l.counters.CountEvent(ev)
	l.ops = append(l.ops, l.state.Step(l.clock(), ev)...)
}

func (l *Loop) applyRequest(r loopRequest) {
	if r.apply != nil {
		r.apply(l.applyEvent)
	}
	l.replies = append(l.replies, r.reply)
}

// commitBatch records, then acts, then answers.
func (l *Loop) commitBatch(ctx context.Context) error {
	changes := l.state.TakeChanges()
	change := journal.Change{FrameworkID: changes.FrameworkID, Removed: changes.Removed, Jobs: changes.Jobs, Tasks: changes.Tasks, Documents: changes.Documents}
	var err error
	if !changes.IsEmpty() {
		err = l.journal.Commit(ctx, change)
	}
	ops, done := l.ops, l.replies
	l.ops, l.replies = nil, nil
	if err != nil {
		err = fmt.Errorf("record before acting: %w", err)
	} else {
		l.connected.Store(l.state.IsConnected())
		l.Model.ApplyRecorded(change, changes.Transitions, changes.LateEnds)
		for _, m := range changes.Transitions {
			l.log.WithFields(logrus.Fields{"task": m.TaskID, "state": m.State, "message": m.Message}).Info("task changed")
		}
		l.countOperations(l.clock(), ops, changes.Transitions, l.state.CountHeldOffers())
		for _, op := range ops {
			l.post(op)
		}
	}
	for _, f := range done {
		f(l.state, err)
	}
	return err
}

// EventSender hands events to the loop, while there is one.
func (l *Loop) EventSender(ctx context.Context) func(sched.Event) {
	return func(ev sched.Event) {
		select {
		case l.events <- ev:
		case <-ctx.Done():
		}
	}
}

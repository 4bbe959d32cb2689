package framework

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
)

// tickEvery is how often the State learns that time has passed.
const tickEvery = time.Second

// batch bounds how many events are recorded with one write to the disk.
const batch = 256

// request is something that people want of the State. Both functions run in
// the loop: step applies events, done runs once those are recorded.
type request struct {
	step func(apply func(sched.Event))
	done func(st *sched.State, err error)
}

// loop owns the State: one goroutine applies events, records what they
// changed, and only then has the operations performed and requests answered.
type loop struct {
	st       *sched.State
	journal  journal.Journal
	view     *view // what is recorded, for readers
	post     func(sched.Op)
	clock    func() time.Time
	log      logrus.FieldLogger
	events   chan sched.Event
	requests chan request
	// connected is the State's, for those who do not want to ask the loop.
	connected atomic.Bool

	rest  time.Time        // until when no cycle is begun
	again <-chan time.Time // then one is; nil where none has been put off

	ballast []byte // see collectFrom

	ops  []sched.Op
	done []func(*sched.State, error)
	meter
}

// collectFrom bytes are held and never touched: they take no memory, but the
// collector waits until as much has been allocated. Requests leave garbage, and
// a scheduler of few jobs, of a few MiB, would be gone through again and again.
const collectFrom = 32 << 20

func newLoop(cfg *Config, past journal.Contents, store journal.Journal, post func(sched.Op)) *loop {
	v := newView(past) // a copy, before the State takes the jobs over
	return &loop{
		meter: newMeter(cfg, past),
		st:    sched.New(cfg.Sched, sched.Past(past)), journal: store, view: v, post: post,
		clock: cfg.Clock, log: cfg.Log, events: make(chan sched.Event, batch), requests: make(chan request),
		ballast: make([]byte, collectFrom),
	}
}

// run goes on until ctx ends, or the journal cannot be written: what is not
// recorded must not be done.
func (l *loop) run(ctx context.Context) error {
	ticks := time.NewTicker(tickEvery)
	defer ticks.Stop()
	for {
		select {
		case ev := <-l.events:
			l.apply(ev)
		case r := <-l.requests:
			l.take(r)
		case <-ticks.C:
			l.apply(sched.Tick{})
			l.record()
		case <-l.again:
			l.again = nil
		case <-ctx.Done():
			return nil
		}
		l.drain()
		l.cycle()
		if err := l.flush(ctx); err != nil {
			return err
		}
	}
}

// longCycle is from when cycles leave time for what people ask.
const longCycle = time.Millisecond

// cycle answers the offers that have come. It goes through all that waits:
// where that takes long, the next one waits three times as long, so that most
// of the time is left to take and record what comes meanwhile.
func (l *loop) cycle() {
	began := time.Now()
	if wait := l.rest.Sub(began); wait > 0 {
		if l.again == nil {
			l.again = time.After(wait)
		}
		return
	}
	plans := l.st.Plans()
	l.apply(sched.Cycle{})
	if l.st.Plans() > plans {
		l.counters.Planned(time.Since(began))
	}
	if took := time.Since(began); took > longCycle {
		l.rest = began.Add(4 * took)
	}
}

// drain takes what else has come, so that a burst costs one write.
func (l *loop) drain() {
	for range batch {
		select {
		case ev := <-l.events:
			l.apply(ev)
		case r := <-l.requests:
			l.take(r)
		default:
			return
		}
	}
}

func (l *loop) apply(ev sched.Event) {
	l.counters.Event(ev)
	l.ops = append(l.ops, l.st.Step(l.clock(), ev)...)
}

func (l *loop) take(r request) {
	if r.step != nil {
		r.step(l.apply)
	}
	l.done = append(l.done, r.done)
}

// flush records, then acts, then answers.
func (l *loop) flush(ctx context.Context) error {
	changes := l.st.Drain()
	change := journal.Change{FrameworkID: changes.FrameworkID, Removed: changes.Removed, Jobs: changes.Jobs, Tasks: changes.Tasks, Documents: changes.Documents}
	var err error
	if !changes.Empty() {
		err = l.journal.Commit(ctx, change)
	}
	ops, done := l.ops, l.done
	l.ops, l.done = nil, nil
	if err != nil {
		err = fmt.Errorf("record before acting: %w", err)
	} else {
		l.connected.Store(l.st.Connected())
		l.view.record(change, changes.Moves, changes.Late)
		for _, m := range changes.Moves {
			l.log.WithFields(logrus.Fields{"task": m.TaskID, "state": m.State, "message": m.Message}).Info("task changed")
		}
		l.acted(l.clock(), ops, changes.Moves, l.st.Held())
		for _, op := range ops {
			l.post(op)
		}
	}
	for _, f := range done {
		f(l.st, err)
	}
	return err
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

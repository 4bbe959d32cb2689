package framework

import (
	"context"
	"fmt"
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
	post     func(sched.Op)
	clock    func() time.Time
	log      logrus.FieldLogger
	hub      *hub
	events   chan sched.Event
	requests chan request

	ops  []sched.Op
	done []func(*sched.State, error)
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
		case <-ctx.Done():
			return nil
		}
		l.drain()
		if err := l.flush(); err != nil {
			return err
		}
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
	l.ops = append(l.ops, l.st.Step(l.clock(), ev)...)
}

func (l *loop) take(r request) {
	if r.step != nil {
		r.step(l.apply)
	}
	l.done = append(l.done, r.done)
}

// flush records, then acts, then answers.
func (l *loop) flush() error {
	changes := l.st.Drain()
	var err error
	if !changes.Empty() {
		err = l.journal.Commit(journal.Change{
			FrameworkID: changes.FrameworkID, Removed: changes.Removed, Jobs: changes.Jobs, Tasks: changes.Tasks,
		})
	}
	ops, done := l.ops, l.done
	l.ops, l.done = nil, nil
	if err != nil {
		err = fmt.Errorf("record before acting: %w", err)
	} else {
		for _, m := range changes.Moves {
			l.log.WithFields(logrus.Fields{"task": m.TaskID, "state": m.State, "message": m.Message}).Info("task changed")
			l.hub.publish(eventOf(m))
		}
		for _, op := range ops {
			l.post(op)
		}
	}
	for _, f := range done {
		f(l.st, err)
	}
	return err
}

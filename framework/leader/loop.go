package leader

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/accounting"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/notifier"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
)

// tickInterval is how often the loop sends the current time to the State, which has no timers: each of its timeouts,
// backoffs and deadlines takes effect with the first event after it has passed.
const tickInterval = time.Second

// maxBatch limits how many events are recorded with one write to the disk. It bounds how long the first request of a
// batch waits for the others.
const maxBatch = 256

// loopRequest is a request to the State. Both functions run in the loop: apply applies
// events, and reply runs once those are recorded.
type loopRequest struct {
	apply func(apply func(sched.Event))
	reply func(st *sched.State, err error)
}

// Loop owns the State. One goroutine applies events, records the changes and only
// then carries out the operations and answers the requests. Other goroutines reach it by events and requests, and read
// Model and connected; all other fields that change belong to the loop's goroutine.
//
// Events and requests are taken in batches. A batch contains the events and requests that waited when the loop was free; it ends with a
// scheduling cycle and is recorded by one write to the journal, so that the cost of the write is shared.
type Loop struct {
	// state is the scheduler's state. Each event changes it. Only the loop uses it.
	state *sched.State
	// journal records the changes of each batch.
	journal journal.Journal
	// Model contains the recorded state, for readers outside the loop. It changes after a
	// batch is recorded.
	Model *readmodel.Model
	// post is called for each operation, in order, after its cause is recorded. It queues the call and does not wait for
	// the master. A call may be lost with the connection: the State reconciles its tasks after the next subscription.
	post func(sched.Operation)
	// clock gives the time of each event; the State has no clock of its own.
	clock func() time.Time
	log   logrus.FieldLogger
	// accounting stores the ends of attempts; nil if it is disabled.
	accounting *accounting.Recorder
	// notifier delivers notifications; nil if they are not configured.
	notifier *notifier.Notifier
	// events come from the master client, requests from the API, schedules, extensions and
	// reloads of the policy. There is no order between the two.
	events   chan sched.Event
	requests chan loopRequest
	// connected is whether the scheduler is subscribed to a master, as of the last recorded
	// batch. It is for readers outside the loop.
	connected atomic.Bool

	// nextCycle is the time before which no cycle starts. A long cycle sets it. cycleTimer
	// fires when a delayed cycle is due, reviveTimer when a postponed REVIVE is due; each is nil if none is. A firing
	// timer only starts a batch: the cycle at its end finds out what is due.
	nextCycle               time.Time
	cycleTimer, reviveTimer <-chan time.Time

	// full is why no jobs can be added, as of the last tick: the journal's disk has no
	// space for them. It is nil otherwise. Changes of existing jobs are still recorded, for which the journal has
	// reserved space.
	full error

	// ops and replies belong to the current batch. commitBatch carries them out and
	// clears them.
	ops     []sched.Operation
	replies []func(*sched.State, error)
	loopMetrics
}

// heapBallastSize is the size in bytes of a heap allocation that is never touched and
// so uses no memory. It makes the garbage collector run less often: requests leave
// garbage, and a scheduler with few jobs has a heap of a few MiB, which would be
// collected again and again.
const heapBallastSize = 32 << 20

// LoopConfig configures a Loop.
type LoopConfig struct {
	// Sched are the settings and the policy of the State.
	Sched sched.SchedulerSettings
	// Counters count operations and state changes, across terms as leader.
	Counters *metrics.SchedulerCounters
	// Clock gives the time of events; time.Now outside of tests.
	Clock func() time.Time
	Log   logrus.FieldLogger
	// Accounting stores the ends of attempts; nil for none, or if Sched.Accounting is set because the caller stores them.
	Accounting *accounting.Recorder
	// Notifier delivers notifications; nil for none.
	Notifier *notifier.Notifier
}

// NewLoop returns a loop that continues from the journal's contents, which the caller must not use any more. It calls
// post with each operation after the journal has recorded the operation's cause.
func NewLoop(cfg LoopConfig, past journal.JournalContents, store journal.Journal, post func(sched.Operation)) *Loop {
	cfg.Sched.Accounting = cfg.Sched.Accounting || cfg.Accounting != nil
	v := readmodel.New(past) // before the State takes ownership of the jobs
	return &Loop{
		loopMetrics: newLoopMetrics(cfg, past, v),
		state:       sched.New(cfg.Sched, sched.RecoveredState(past)),
		journal:     store,
		Model:       v,
		post:        post,
		clock:       cfg.Clock,
		log:         cfg.Log,
		accounting:  cfg.Accounting,
		notifier:    cfg.Notifier,
		events:      make(chan sched.Event, maxBatch),
		requests:    make(chan loopRequest),
	}
}

// Run runs the loop until ctx ends, and then returns nil, or until the journal cannot be written, and then returns why.
// After a failed write the State is ahead of the journal and cannot be corrected, so that this scheduler must not lead
// on: operations of that batch are not carried out, its requests are answered with the error, and the next leader
// continues from what is recorded.
func (l *Loop) Run(ctx context.Context) error {
	ballast := make([]byte, heapBallastSize)
	defer runtime.KeepAlive(ballast)
	ticks := time.NewTicker(tickInterval)
	defer ticks.Stop()
	l.checkSpace()
	for {
		select {
		case ev := <-l.events:
			l.applyEvent(ev)
		case r := <-l.requests:
			l.applyRequest(r)
		case <-ticks.C:
			l.checkSpace()
			l.applyEvent(sched.Tick{})
		case <-l.cycleTimer:
			l.cycleTimer = nil
		case <-l.reviveTimer:
			l.reviveTimer = nil
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

// RunBatch applies the events that step applies, ends them with a cycle and commits the batch, all in the caller's
// goroutine. A simulation calls it in place of Run, to decide when each batch happens; the two must not run together.
func (l *Loop) RunBatch(ctx context.Context, step func(st *sched.State, apply func(sched.Event))) error {
	step(l.state, l.applyEvent)
	l.applyEvent(sched.Cycle{})
	return l.commitBatch(ctx)
}

// checkSpace sets full, and logs when it changes. Other errors than a full disk have no
// effect: a commit will report what does not work.
func (l *Loop) checkSpace() {
	err := l.journal.CheckSpace()
	isFull := errors.Is(err, journal.ErrFull)
	switch {
	case isFull && l.full == nil:
		l.log.WithError(err).Error("no jobs are accepted")
	case !isFull && l.full != nil:
		l.log.Info("the journal has disk space again: jobs are accepted")
	}
	if l.full = nil; isFull {
		l.full = err
	}
}

// longCycle is the duration above which cycles are spaced out.
const longCycle = time.Millisecond

// runCycle places pending jobs on the current offers, which visits all pending jobs.
// After a long cycle the next one starts only after three times that duration, so that
// most of the time remains for events and requests. It measures with time.Now, not the loop's clock: that one may be
// simulated, and the duration measures this machine's work.
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
	if due := l.state.ReviveDue(); !due.IsZero() && l.reviveTimer == nil {
		l.reviveTimer = time.After(due.Sub(l.clock()))
	}
}

// takeBatch applies all waiting events and requests, at most maxBatch, so that a burst needs one write.
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

// applyEvent applies an event to the State and adds its operations to the batch.
func (l *Loop) applyEvent(ev sched.Event) {
	l.counters.CountEvent(ev)
	l.ops = append(l.ops, l.state.Step(l.clock(), ev)...)
	if _, tick := ev.(sched.Tick); tick {
		l.recordGPUTime()
		l.computeRoleShares()
	}
}

// applyRequest applies the events of a request. Its reply follows after the batch is recorded.
func (l *Loop) applyRequest(r loopRequest) {
	if r.apply != nil {
		r.apply(l.applyEvent)
	}
	l.replies = append(l.replies, r.reply)
}

// commitBatch records the changes, then carries out the operations, then answers the requests. Without changes it
// confirms that this scheduler leads before statuses are acknowledged and tasks are killed: another leader may know more of
// these tasks.
func (l *Loop) commitBatch(ctx context.Context) error {
	changes := l.state.TakeChanges()
	change := journal.Change{FrameworkID: changes.FrameworkID, Removed: changes.Removed, Jobs: changes.Jobs, Tasks: changes.Tasks, Documents: changes.Documents}
	var err error
	switch {
	case !changes.IsEmpty():
		err = l.journal.Commit(ctx, change)
	case slices.ContainsFunc(l.ops, endsTaskOrStatus):
		err = l.journal.ConfirmLeading(ctx)
	}
	ops, done := l.ops, l.replies
	l.ops, l.replies = nil, nil
	if err != nil {
		err = fmt.Errorf("record before acting: %w", err)
	} else {
		l.connected.Store(l.state.IsConnected())
		l.Model.ApplyRecorded(change, changes.Transitions, changes.LateEnds, changes.Shared)
		if l.accounting != nil {
			l.accounting.ObserveChange(l.Model, change)
			l.accounting.CountLost(changes.UnaccountedLost)
		}
		if l.notifier != nil {
			l.notifier.CountDropped(changes.NotificationsDropped)
		}
		for _, c := range changes.Conflicts {
			l.log.WithFields(logrus.Fields{
				"agent":   c.AgentID,
				"host":    c.Hostname,
				"task":    c.TaskID,
				"offered": c.What,
			}).Warn("Mesos offers what a task holds that is not known to have ended: it is not used")
		}
		l.counters.CountConflicts(len(changes.Conflicts))
		for _, a := range changes.IncompleteAnswers {
			l.log.WithFields(logrus.Fields{"agent": a.AgentID, "host": a.Hostname, "task": a.TaskID}).
				Warn("the agent does not list a task that runs there, so its answer proves nothing: " +
					"permit the framework's principal to view frameworks, executors and tasks (ACLs view_frameworks, view_executors, view_tasks)")
		}
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

// endsTaskOrStatus reports whether an operation ends a task, or the agent's repetition of a status.
func endsTaskOrStatus(op sched.Operation) bool {
	switch op.(type) {
	case sched.AcknowledgeUpdate, sched.AcknowledgeOperation, sched.KillTask, sched.ShutdownExecutor:
		return true
	}
	return false
}

// EventSender returns a function that sends an event to the loop, until ctx ends. The function waits while the loop is
// behind, and drops the event once ctx has ended: the loop has then stopped too. It does not wait until the event is
// applied. The loop must not call it.
func (l *Loop) EventSender(ctx context.Context) func(sched.Event) {
	return func(ev sched.Event) {
		select {
		case l.events <- ev:
		case <-ctx.Done():
		}
	}
}

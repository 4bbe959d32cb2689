package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// orderedJournal is a journal that records the order of commits and operations.
type orderedJournal struct {
	mu    sync.Mutex
	lines []string // protected by mu
	fail  error
	full  error
}

func (d *orderedJournal) Load(context.Context) (journal.JournalContents, error) {
	return journal.JournalContents{}, nil
}
func (d *orderedJournal) Close() error      { return nil }
func (d *orderedJournal) CheckSpace() error { return d.full }

func (d *orderedJournal) ConfirmLeading(context.Context) error {
	d.addLine("confirm")
	return d.fail
}

func (d *orderedJournal) Commit(_ context.Context, c journal.Change) error {
	text := "record"
	if c.FrameworkID != "" {
		text += " " + c.FrameworkID
	}
	for _, t := range c.Tasks {
		text += fmt.Sprintf(" %s %s", t.Job, t.State)
	}
	d.addLine(text)
	return d.fail
}

func (d *orderedJournal) postOperation(op sched.Operation) {
	d.addLine("post " + strings.Fields(op.String())[0])
}

func (d *orderedJournal) addLine(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *orderedJournal) takeLines() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := strings.Join(d.lines, "; ")
	d.lines = nil
	return text
}

func newTestLoop(d *orderedJournal) *Loop {
	return NewLoop(testLoopConfig(), journal.JournalContents{}, d, d.postOperation)
}

// TestPolicyAppliesToLaterRequests: ChangePolicy returns only when the loop uses the policy, so
// that requests that follow a reload are subject to it.
func TestPolicyAppliesToLaterRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLoop(&orderedJournal{})
		b := New(l, Config{Stopped: t.Context().Done()})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = l.Run(ctx) }()
		busy := make(chan struct{})
		l.requests <- loopRequest{apply: func(func(sched.Event)) { <-busy }, reply: func(*sched.State, error) {}}
		applied, returned := false, false
		go func() {
			if err := b.ChangePolicy(sched.Policy{Policy: placement.Policy{Roles: []queue.Role{{Name: "research"}}}}, func() { applied = true }); err != nil {
				t.Error(err)
			}
			returned = true
		}()
		synctest.Wait()
		if applied || returned {
			t.Fatalf("while the loop is busy: applied %t, returned %t", applied, returned)
		}
		close(busy)
		synctest.Wait()
		role := ""
		err := b.applyInLoop(ctx, func(st *sched.State, _ func(sched.Event)) error {
			role = st.DefaultRole()
			return nil
		})
		if err != nil || role != "research" || !applied || !returned {
			t.Errorf("role %q, applied %t, returned %t, %v", role, applied, returned, err)
		}
	})
}

// TestCommitPrecedesOperations: the intent is committed before ACCEPT, and updates before
// ACKNOWLEDGE; requests are answered after both. Where nothing is committed, the journal
// confirms that this scheduler leads.
func TestCommitPrecedesOperations(t *testing.T) {
	d := &orderedJournal{}
	l := newTestLoop(d)
	s := frameworktest.JobSpec("train", 1, 1)
	s.SetDefaults()
	var id string
	for _, step := range []struct {
		ev   sched.Event
		want string
	}{
		{sched.Subscribed{FrameworkID: "f1"}, "record f1; post suppress"},
		{sched.SubmitJob{Spec: s}, "record train WAITING; post revive"},
		{sched.OffersReceived{Offers: []sched.Offer{{ID: "o1", AgentID: "a", Role: "*", GPUs: 1, Free: sched.Amount{CPUs: 2, MemMiB: 1024}}}},
			"record train LAUNCHING; post accept; post suppress"},
		{sched.TaskUpdate{State: job.Running, UUID: []byte{1}}, "record train RUNNING; post acknowledge"},
		{sched.TaskUpdate{State: job.Running, UUID: []byte{1}}, "confirm; post acknowledge"},
		{sched.TaskUpdate{State: job.Running, UUID: []byte{1}, Healthy: new(bool)}, "record train RUNNING; post acknowledge"},
		{sched.TaskUpdate{State: job.Running, UUID: []byte{1}, Healthy: new(bool)}, "confirm; post acknowledge"},
		{sched.Tick{}, ""},
	} {
		if u, ok := step.ev.(sched.TaskUpdate); ok {
			u.TaskID = id
			step.ev = u
		}
		l.applyEvent(step.ev)
		l.applyEvent(sched.Cycle{})
		if err := l.commitBatch(context.Background()); err != nil {
			t.Fatal(err)
		}
		if j, ok := l.state.Job("train"); ok {
			id = j.Tasks[0].ID
		}
		if got := d.takeLines(); got != step.want {
			t.Errorf("%T: %q, want %q", step.ev, got, step.want)
		}
	}
}

// TestFailedCommitStopsOperations: when the journal cannot be written, no operation is
// sent, the request fails and the loop ends.
func TestFailedCommitStopsOperations(t *testing.T) {
	d := &orderedJournal{fail: errors.New("no space left on device")}
	l := newTestLoop(d)
	b := New(l, Config{})
	ended := make(chan error, 1)
	go func() { ended <- l.Run(context.Background()) }()
	l.events <- sched.Subscribed{FrameworkID: "f1"}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the loop ended with %v", err)
	}
	if got := d.takeLines(); got != "record f1" {
		t.Errorf("did %q", got)
	}
	go func() { ended <- l.Run(context.Background()) }()
	s := frameworktest.JobSpec("train", 1, 1)
	s.SetDefaults()
	if _, _, err := b.Jobs.SubmitJob(context.Background(), nil, s); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("submit: %v", err)
	}
	<-ended
}

// TestDeposedLeaderDoesNotAcknowledge: a status that changes nothing is not acknowledged
// once another scheduler leads.
func TestDeposedLeaderDoesNotAcknowledge(t *testing.T) {
	d := &orderedJournal{}
	l := newTestLoop(d)
	l.applyEvent(sched.Subscribed{FrameworkID: "f1"})
	if err := l.commitBatch(context.Background()); err != nil {
		t.Fatal(err)
	}
	d.takeLines()
	d.fail = journal.ErrFenced
	l.applyEvent(sched.TaskUpdate{TaskID: "unknown.0.1", State: job.Finished, UUID: []byte{1}})
	if err := l.commitBatch(context.Background()); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the loop continues: %v", err)
	}
	if got := d.takeLines(); got != "confirm" {
		t.Errorf("did %q, want no operation", got)
	}
}

// TestFullDiskRefusesJobsOnly: while the journal's disk is full, jobs are refused with the
// remedy and can be listed and killed; once it has space again, jobs are accepted.
func TestFullDiskRefusesJobsOnly(t *testing.T) {
	d := &orderedJournal{}
	l := newTestLoop(d)
	b := New(l, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	setFull := func(err error) {
		t.Helper()
		if err := b.runInLoop(ctx, func(func(sched.Event)) { d.full = err; l.checkSpace() }, func(*sched.State) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	go func() { ended <- l.Run(ctx) }()
	s := frameworktest.JobSpec("train", 1, 1)
	s.SetDefaults()
	if _, _, err := b.Jobs.SubmitJob(ctx, nil, s); err != nil {
		t.Fatal(err)
	}
	setFull(fmt.Errorf("journal x: %w: free space", journal.ErrFull))
	late := s
	late.Name = "late"
	var p *api.Problem
	if _, _, err := b.Jobs.SubmitJob(ctx, nil, late); !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable ||
		!p.Retryable || !strings.Contains(p.Detail, "free space") {
		t.Errorf("submit: %v", err)
	}
	if _, _, err := b.Schedules.AddSchedule(ctx, nil, frameworktest.ScheduledSpec("nightly", "0 3 * * *")); !errors.Is(err, journal.ErrFull) {
		t.Errorf("add a schedule: %v", err)
	}
	if err := b.Jobs.KillJob(ctx, request.Change{}, "train", false); err != nil {
		t.Errorf("kill: %v", err)
	}
	if view, err := b.GetJob(ctx, "train"); err != nil || view.State != job.Killed {
		t.Errorf("job %s, %v", view.State, err)
	}
	setFull(nil)
	if _, _, err := b.Jobs.SubmitJob(ctx, nil, late); err != nil {
		t.Errorf("submit after space was freed: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLoopTicksAndStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &orderedJournal{}
		l := newTestLoop(d)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		l.EventSender(ctx)(sched.Subscribed{FrameworkID: "f1"})
		time.Sleep(20 * time.Second) // implicit reconciliation is due after 15 s
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := d.takeLines(); got != "record f1; post suppress; post reconcile" {
			t.Errorf("did %q", got)
		}
		b := New(l, Config{Stopped: ctx.Done()})
		if err := b.Jobs.KillJob(context.Background(), request.Change{}, "train", false); err == nil {
			t.Error("a loop that has ended answered")
		}
		b.stopped = nil
		var p *api.Problem
		if err := b.Jobs.KillJob(ctx, request.Change{}, "train", false); !errors.As(err, &p) || p.Status != http.StatusServiceUnavailable {
			t.Errorf("a request that ended: %v", err)
		}
		l.EventSender(ctx)(sched.Tick{}) // does not block
	})
}

// TestPostponedRevive: the second job's REVIVE is sent when its pause ends, before the next tick.
func TestPostponedRevive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &orderedJournal{}
		l := newTestLoop(d)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		send := l.EventSender(ctx)
		send(sched.Subscribed{FrameworkID: "f1"})
		submit := func(name string) {
			spec := frameworktest.JobSpec(name, 1, 8)
			spec.SetDefaults()
			send(sched.SubmitJob{Spec: spec})
			synctest.Wait()
		}
		submit("first")
		send(sched.OffersReceived{Offers: []sched.Offer{{ID: "o1", AgentID: "a", Role: "*", GPUs: 1, Free: sched.Amount{CPUs: 2, MemMiB: 1024}}}})
		synctest.Wait()
		d.takeLines()
		submit("second")
		if got := d.takeLines(); strings.Contains(got, "revive") {
			t.Errorf("revived again at once: %q", got)
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if got := d.takeLines(); got != "post revive" {
			t.Errorf("after 100 ms: %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestBallastDelaysGarbageCollection: the garbage collector does not run after every few
// MiB of garbage in a scheduler without jobs.
func TestBallastDelaysGarbageCollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	l := newTestLoop(&orderedJournal{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	l.requests <- loopRequest{reply: func(*sched.State, error) {}} // it runs
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	if got := goal[0].Value.Uint64(); got < 2*heapBallastSize {
		t.Errorf("the next collection starts at %d bytes, want at least %d", got, 2*heapBallastSize)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

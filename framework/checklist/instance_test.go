package checklist

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

// Timeouts of the schedulers in these tests. A scheduler checks the time once a
// second.
const (
	launchTimeout  = 2 * time.Second
	killRetry      = time.Second
	reconcileRetry = 2 * time.Second
	holdOffers     = time.Second
)

// clock is the system clock, ahead by an offset that the test sets.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// testInstance is a running scheduler with a client of its API.
type testInstance struct {
	*framework.Scheduler
	*client.Client
	*clock
	t       testing.TB
	journal string
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error // valid once ended is closed
}

// newLogger returns a logger whose last lines are shown if the test fails.
func newLogger(t testing.TB, name string) logrus.FieldLogger {
	buffer := &lockedBuffer{}
	l := logrus.New()
	l.SetOutput(buffer)
	l.SetLevel(logrus.DebugLevel)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", name, buffer.tail())
		}
	})
	return l
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) tail() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.buf.String()
	return text[max(0, len(text)-6000):]
}

// startScheduler runs a scheduler with the world's master and short timeouts.
func (w *testEnv) startScheduler(change func(*framework.SchedulerConfig)) *testInstance {
	w.t.Helper()
	binary, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	in := &testInstance{t: w.t, clock: &clock{}, ended: make(chan struct{})}
	ready := make(chan string, 1)
	cfg := framework.SchedulerConfig{
		Master: w.server.URL, APIAddr: "127.0.0.1:0", JournalPath: filepath.Join(w.t.TempDir(), "journal"),
		ExecutorPath: binary, Log: newLogger(w.t, "scheduler"), Ready: func(addr string) { ready <- addr },
		Clock: in.now,
	}
	cfg.Sched.LaunchTimeout, cfg.Sched.KillRetry = launchTimeout, killRetry
	cfg.Sched.ReconcileRetry, cfg.Sched.HoldOffers = reconcileRetry, holdOffers
	if change != nil {
		change(&cfg)
	}
	in.journal = cfg.JournalPath
	if in.Scheduler, err = framework.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in.cancel = cancel
	go func() { defer close(in.ended); in.err = in.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		select {
		case <-in.ended:
		case <-time.After(waitTimeout):
			w.t.Error("the scheduler does not end")
		}
	})
	select {
	case addr := <-ready:
		if in.Client, err = client.New(addr); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(in.Client.Close)
	case <-in.ended:
		w.t.Fatalf("the scheduler ended: %v", in.err)
	}
	return in
}

// stop stops the scheduler and waits until it has stopped.
func (in *testInstance) stop() {
	in.t.Helper()
	in.cancel()
	if err := in.awaitExit(); err != nil {
		in.t.Fatalf("the scheduler ended with %v", err)
	}
}

// awaitExit waits for a scheduler that stops by itself and returns its error.
func (in *testInstance) awaitExit() error {
	in.t.Helper()
	select {
	case <-in.ended:
		return in.err
	case <-time.After(waitTimeout):
		in.t.Fatal("the scheduler did not stop")
		return nil
	}
}

// copyJournal copies the journal as it would be if the scheduler died now. It may be called
// from any goroutine.
func (in *testInstance) copyJournal() string {
	in.t.Helper()
	path := filepath.Join(in.t.TempDir(), "journal")
	text, err := os.ReadFile(in.journal)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		in.t.Error(err)
	}
	return path
}

// readJournal returns the jobs of a journal, by a scheduler without a master.
func (w *testEnv) readJournal(journal string) []api.JobView {
	w.t.Helper()
	in := w.startScheduler(func(c *framework.SchedulerConfig) { c.Master, c.JournalPath = "http://127.0.0.1:1", journal })
	jobs, err := in.ListJobs(in.withTimeout())
	if err != nil {
		w.t.Fatal(err)
	}
	in.stop()
	return jobs
}

func (in *testInstance) withTimeout() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	in.t.Cleanup(cancel)
	return ctx
}

func (in *testInstance) submit(specs ...job.Spec) {
	in.t.Helper()
	for _, s := range specs {
		if _, err := in.SubmitJob(in.withTimeout(), s); err != nil {
			in.t.Fatal(err)
		}
	}
}

// getJob returns a job in its current state.
func (in *testInstance) getJob(name string) api.JobView {
	in.t.Helper()
	view, err := in.GetJob(in.withTimeout(), name)
	if err != nil {
		in.t.Fatal(err)
	}
	return view
}

// awaitTask waits until a job's first task is in one of the states and returns it.
func (in *testInstance) awaitTask(name string, states ...job.State) job.Task {
	in.t.Helper()
	return in.awaitTaskCondition(name, stateNames(states), func(t job.Task) bool { return slices.Contains(states, t.State) })
}

func stateNames(states []job.State) string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	return strings.Join(names, " or ")
}

// awaitTaskCondition waits until a job's first task satisfies that. It checks only after changes of
// state, so it notices other changes late.
func (in *testInstance) awaitTaskCondition(name, what string, that func(job.Task) bool) job.Task {
	in.t.Helper()
	last := "nothing"
	for _, err := range in.StreamEvents(in.withTimeout(), name) {
		if err != nil {
			break
		}
		view := in.getJob(name)
		if t := view.Tasks[0]; that(t) {
			return t
		}
		last = string(view.State) + " " + view.WaitReason
	}
	in.t.Fatalf("job %s did not become %s; it is %s", name, what, last)
	return job.Task{}
}

// awaitProcessed returns once the scheduler has processed all earlier events: it runs a new job
// until that has ended.
func (w *testEnv) awaitProcessed(in *testInstance, name string) {
	w.t.Helper()
	in.submit(w.newSpec(name, 0))
	in.awaitTask(name, job.Running)
	w.finishTasks(name)
	in.awaitTask(name, job.Finished)
}

package framework

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// waitTimeout limits every wait: a test that waits longer fails.
const waitTimeout = time.Minute

// testInstance is a running Scheduler with a client of its API.
type testInstance struct {
	*Scheduler
	*client.Client
	stop context.CancelFunc
	// done receives the result of Run, ended is closed after it.
	done  chan error
	ended chan struct{}
	addr  string
}

func startWithJournal(t *testing.T, c *mesostest.FakeCluster, journalPath string) *testInstance {
	t.Helper()
	return startInstance(t, c, SchedulerConfig{JournalPath: journalPath})
}

func startInstance(t testing.TB, c *mesostest.FakeCluster, cfg SchedulerConfig, options ...client.Option) *testInstance {
	t.Helper()
	ready := make(chan string, 1)
	cfg.Master, cfg.APIAddr, cfg.ExecutorPath = strings.TrimPrefix(c.URL(), "http://"), "127.0.0.1:0", "/usr/bin/mesos-gpu"
	if cfg.Log == nil {
		cfg.Log = frameworktest.DiscardLog()
	}
	cfg.Ready = func(addr string) { ready <- addr }
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in := &testInstance{Scheduler: s, stop: cancel, done: make(chan error, 1), ended: make(chan struct{})}
	go func() {
		defer close(in.ended)
		in.done <- s.Run(ctx)
	}()
	select {
	case in.addr = <-ready:
	case err := <-in.done:
		t.Fatalf("Run ended: %v", err)
	}
	if in.Client, err = client.New(cfg.API.URLFor(in.addr), options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		in.Client.Close()
		select {
		case <-in.ended: // it writes to folders that are removed after this
		case <-time.After(waitTimeout):
			t.Error("Run did not return")
		}
	})
	return in
}

// stopAndWait stops the scheduler and waits until it has stopped.
func (in *testInstance) stopAndWait(t testing.TB) {
	t.Helper()
	in.stop()
	select {
	case err := <-in.done:
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
	case <-time.After(waitTimeout):
		t.Fatal("Run did not return")
	}
}

// awaitState reads events until all of the job's tasks are in that state.
func awaitState(t *testing.T, in *testInstance, name string, want job.State) api.JobView {
	t.Helper()
	ctx := frameworktest.Timeout(t)
	for _, err := range in.StreamEvents(ctx, name) {
		if err != nil {
			t.Fatal(err)
		}
		view, err := in.GetJob(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(view.Tasks, func(x job.Task) bool { return x.State != want }) {
			return view
		}
	}
	view, err := in.GetJob(context.Background(), name)
	t.Fatalf("job %s did not become %s: tasks %+v, %v", name, want, view.Tasks, err)
	return api.JobView{}
}

// newBreakingProxy returns the URL of a proxy that closes its first connection after so many
// bytes of answers.
func newBreakingProxy(t *testing.T, addr string, after int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for first := true; ; first = false {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			limit := int64(1 << 40)
			if first {
				limit = after
			}
			go func() { _, _ = io.Copy(out, in) }()
			go func() {
				_, _ = io.CopyN(in, out, limit)
				in.Close()
				out.Close()
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

package framework

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// patience bounds every wait: a test that gets there has failed.
const patience = time.Minute

// instance is a Scheduler that runs, and a client of its API.
type instance struct {
	*Scheduler
	*client.Client
	stop context.CancelFunc
	done chan error
	addr string
}

func quiet() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

func run(t *testing.T, c *mesostest.Cluster, journalPath string) *instance {
	t.Helper()
	return start(t, c, Config{JournalPath: journalPath})
}

func start(t testing.TB, c *mesostest.Cluster, cfg Config, options ...client.Option) *instance {
	t.Helper()
	ready := make(chan string, 1)
	cfg.Master, cfg.APIAddr, cfg.ExecutorPath = strings.TrimPrefix(c.URL(), "http://"), "127.0.0.1:0", "/usr/bin/mesos-gpu"
	cfg.Log, cfg.Ready = quiet(), func(addr string) { ready <- addr }
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	in := &instance{Scheduler: s, stop: cancel, done: make(chan error, 1)}
	go func() { in.done <- s.Run(ctx) }()
	select {
	case in.addr = <-ready:
	case err := <-in.done:
		t.Fatalf("Run ended: %v", err)
	}
	if in.Client, err = client.New(cfg.API.URL(in.addr), options...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		in.Client.Close()
	})
	return in
}

// end stops the scheduler and waits until it has.
func (in *instance) end(t testing.TB) {
	t.Helper()
	in.stop()
	select {
	case err := <-in.done:
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Run did not return")
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func spec(name string, tasks, gpus int, types ...string) job.Spec {
	return job.Spec{Name: name, Tasks: tasks, Request: gpu.Request{GPUs: gpus, Types: gpu.Types{Include: types}}, Command: []string{"sh", "-c", "true"}}
}

// awaitState reads events until the job's tasks are all in that state.
func awaitState(t *testing.T, in *instance, name string, want job.State) api.JobView {
	t.Helper()
	ctx := within(t)
	for _, err := range in.Events(ctx, name) {
		if err != nil {
			t.Fatal(err)
		}
		view, err := in.Job(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(view.Tasks, func(x job.Task) bool { return x.State != want }) {
			return view
		}
	}
	view, err := in.Job(context.Background(), name)
	t.Fatalf("job %s was never %s: it is %+v, %v", name, want, view.Tasks, err)
	return api.JobView{}
}

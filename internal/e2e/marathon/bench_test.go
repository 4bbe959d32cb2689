package marathon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/leader"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/job"
	"mesos-gpu/marathon/control"
)

const (
	manyApps        = 1000
	instancesPerApp = 10
)

// submitCounter is an extension that closes allSubmitted when a given number of jobs has been
// submitted.
type submitCounter struct {
	*control.Controller
	remaining    int
	allSubmitted chan struct{}
}

type countingHandle struct {
	*leader.ExtensionHandle
	counter *submitCounter
}

func (c countingHandle) SubmitJobs(ctx context.Context, specs ...job.Spec) error {
	if err := c.ExtensionHandle.SubmitJobs(ctx, specs...); err != nil {
		return err
	}
	if c.counter.remaining -= len(specs); c.counter.remaining == 0 {
		close(c.counter.allSubmitted)
	}
	return nil
}

func (e *submitCounter) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	return e.Run(ctx, countingHandle{c, e})
}

// documentWriter is an extension that writes documents to the journal.
type documentWriter struct {
	*control.Controller
	documents map[string][]byte
	done      context.CancelFunc
}

func (r documentWriter) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	defer r.done()
	return c.PutDocuments(ctx, r.documents)
}

// documentCollector is an extension that sends on a channel the documents that the controller
// would write.
type documentCollector struct {
	*control.Controller
	documents chan map[string][]byte
}

type collectingHandle struct {
	*leader.ExtensionHandle
	collector documentCollector
}

func (k collectingHandle) PutDocuments(ctx context.Context, documents map[string][]byte) error {
	k.collector.documents <- documents
	<-ctx.Done()
	return context.Cause(ctx)
}

func (k documentCollector) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	return k.Run(ctx, collectingHandle{c, k})
}

// runScheduler runs a leading scheduler without agents, with a journal and an extension, until
// do returns.
func runScheduler(b *testing.B, master, journal string, e framework.Extension, do func(ctx context.Context, stop context.CancelFunc)) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	s, err := framework.New(framework.SchedulerConfig{
		Master: master, APIAddr: "127.0.0.1:0", JournalPath: journal, ExecutorPath: "/bin/true", Extension: e, Log: newSilentLogger(),
	})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	do(ctx, stop)
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func newSilentLogger() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// newGroupDefinition returns the definition of a group of manyApps apps.
func newGroupDefinition() string {
	var text []string
	for i := range manyApps {
		text = append(text, fmt.Sprintf(`{"id": "/g%d/app%d", "cmd": "exec serve --port $PORT0", "instances": %d, "cpus": 0.5, "mem": 256, "gpus": 1,
			"env": {"LEVEL": "info", "DATA": "/data"}, "labels": {"team": "t%d"}, "healthChecks": [{"path": "/health", "portIndex": 0}]}`,
			i%10, i, instancesPerApp, i%7))
	}
	return "[" + strings.Join(text, ",") + "]"
}

// BenchmarkColdStart starts a scheduler on a journal that has 1,000 apps of 10 instances and
// no job, and measures the time until all jobs are submitted (cold). Then it restarts the
// scheduler and measures the time until it serves the apps (restart). The restart must not
// submit a job.
func BenchmarkColdStart(b *testing.B) {
	m := master.New(master.MasterConfig{Log: newSilentLogger(), Addr: "127.0.0.1:0"})
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = m.Run(ctx) }()

	made := documentCollector{control.New(control.ControllerConfig{Log: newSilentLogger()}), make(chan map[string][]byte, 1)}
	var documents map[string][]byte
	runScheduler(b, server.URL, filepath.Join(b.TempDir(), "journal"), made, func(ctx context.Context, stop context.CancelFunc) {
		answered := make(chan int, 1)
		go func() { answered <- putGroup(ctx, made.Controller) }()
		documents = <-made.documents
		stop()
		<-answered
	})
	apps := filepath.Join(b.TempDir(), "apps")
	recorded, done := context.WithCancel(context.Background())
	runScheduler(b, server.URL, apps,
		documentWriter{control.New(control.ControllerConfig{Log: newSilentLogger()}), documents, done},
		func(context.Context, context.CancelFunc) { <-recorded.Done() })
	journal, err := os.ReadFile(apps)
	if err != nil {
		b.Fatal(err)
	}
	var cold, warm time.Duration
	for b.Loop() {
		path := filepath.Join(b.TempDir(), "journal")
		if err := os.WriteFile(path, journal, 0o600); err != nil {
			b.Fatal(err)
		}
		e := &submitCounter{control.New(control.ControllerConfig{Log: newSilentLogger()}), manyApps, make(chan struct{})}
		began := time.Now()
		runScheduler(b, server.URL, path, e, func(context.Context, context.CancelFunc) {
			<-e.allSubmitted
			cold += time.Since(began)
		})
		e = &submitCounter{control.New(control.ControllerConfig{Log: newSilentLogger()}), 1, make(chan struct{})}
		began = time.Now()
		runScheduler(b, server.URL, path, e, func(context.Context, context.CancelFunc) {
			for serveRequest(e.Controller, "GET", "/v2/apps/g0/app0", "").Code != http.StatusOK {
				time.Sleep(time.Millisecond) // until it leads
			}
			warm += time.Since(began)
		})
		if e.remaining != 1 {
			b.Fatal("the restarted scheduler submitted a job that exists already")
		}
	}
	b.ReportMetric(float64(cold.Milliseconds())/float64(b.N), "ms/cold")
	b.ReportMetric(float64(warm.Milliseconds())/float64(b.N), "ms/restart")
}

func serveRequest(c *control.Controller, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// putGroup sends the group until the server is ready to accept it.
func putGroup(ctx context.Context, c *control.Controller) int {
	for {
		w := serveRequest(c, "PUT", "/v2/apps", newGroupDefinition())
		if w.Code != http.StatusServiceUnavailable || ctx.Err() != nil {
			return w.Code
		}
		time.Sleep(time.Millisecond)
	}
}

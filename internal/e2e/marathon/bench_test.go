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
	manyApps = 1000
	each     = 10 // instances
)

// counted is an extension that reports when a number of jobs have been
// submitted.
type counted struct {
	*control.Controller
	left int
	all  chan struct{}
}

type counting struct {
	*leader.ExtensionHandle
	by *counted
}

func (c counting) SubmitJobs(ctx context.Context, specs ...job.Spec) error {
	if err := c.ExtensionHandle.SubmitJobs(ctx, specs...); err != nil {
		return err
	}
	if c.by.left -= len(specs); c.by.left == 0 {
		close(c.by.all)
	}
	return nil
}

func (e *counted) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	return e.Run(ctx, counting{c, e})
}

// recording puts documents into a journal.
type recording struct {
	*control.Controller
	documents map[string][]byte
	done      context.CancelFunc
}

func (r recording) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	defer r.done()
	return c.PutDocuments(ctx, r.documents)
}

// keeps collects the documents that a group of so many apps leads to.
type keeps struct {
	*control.Controller
	documents chan map[string][]byte
}

type keeping struct {
	*leader.ExtensionHandle
	by keeps
}

func (k keeping) PutDocuments(ctx context.Context, documents map[string][]byte) error {
	k.by.documents <- documents
	<-ctx.Done()
	return context.Cause(ctx)
}

func (k keeps) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	return k.Run(ctx, keeping{c, k})
}

// run has a scheduler with that journal and extension lead without agents,
// until do returns.
func run(b *testing.B, master, journal string, e framework.Extension, do func(ctx context.Context, stop context.CancelFunc)) {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	s, err := framework.New(framework.SchedulerConfig{
		Master: master, APIAddr: "127.0.0.1:0", JournalPath: journal, ExecutorPath: "/bin/true", Extension: e, Log: quiet(),
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

func quiet() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// definitions is a group of many apps.
func definitions() string {
	var text []string
	for i := range manyApps {
		text = append(text, fmt.Sprintf(`{"id": "/g%d/app%d", "cmd": "exec serve --port $PORT0", "instances": %d, "cpus": 0.5, "mem": 256, "gpus": 1,
			"env": {"LEVEL": "info", "DATA": "/data"}, "labels": {"team": "t%d"}, "healthChecks": [{"path": "/health", "portIndex": 0}]}`, i%10, i, each, i%7))
	}
	return "[" + strings.Join(text, ",") + "]"
}

// BenchmarkCold starts a scheduler on a journal that has 1,000 apps of 10
// instances and no job, up to where all jobs are recorded; then once more, up
// to where it has seen that nothing is left to do and answers for the apps.
func BenchmarkCold(b *testing.B) {
	m := master.New(master.MasterConfig{Log: quiet(), Addr: "127.0.0.1:0"})
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = m.Run(ctx) }()

	made := keeps{control.New(control.ControllerConfig{Log: quiet()}), make(chan map[string][]byte, 1)}
	var documents map[string][]byte
	run(b, server.URL, filepath.Join(b.TempDir(), "journal"), made, func(ctx context.Context, stop context.CancelFunc) {
		answered := make(chan int, 1)
		go func() { answered <- put(ctx, made.Controller) }()
		documents = <-made.documents
		stop()
		<-answered
	})
	apps := filepath.Join(b.TempDir(), "apps")
	recorded, done := context.WithCancel(context.Background())
	run(b, server.URL, apps, recording{control.New(control.ControllerConfig{Log: quiet()}), documents, done}, func(context.Context, context.CancelFunc) { <-recorded.Done() })
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
		e := &counted{control.New(control.ControllerConfig{Log: quiet()}), manyApps, make(chan struct{})}
		began := time.Now()
		run(b, server.URL, path, e, func(context.Context, context.CancelFunc) {
			<-e.all
			cold += time.Since(began)
		})
		e = &counted{control.New(control.ControllerConfig{Log: quiet()}), 1, make(chan struct{})}
		began = time.Now()
		run(b, server.URL, path, e, func(context.Context, context.CancelFunc) {
			for ask(e.Controller, "GET", "/v2/apps/g0/app0", "").Code != http.StatusOK {
				time.Sleep(time.Millisecond) // until it leads
			}
			warm += time.Since(began)
		})
		if e.left != 1 {
			b.Fatal("it submitted what was there")
		}
	}
	b.ReportMetric(float64(cold.Milliseconds())/float64(b.N), "ms/cold")
	b.ReportMetric(float64(warm.Milliseconds())/float64(b.N), "ms/restart")
}

func ask(c *control.Controller, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// put sends the apps until a server accepts them.
func put(ctx context.Context, c *control.Controller) int {
	for {
		w := ask(c, "PUT", "/v2/apps", definitions())
		if w.Code != http.StatusServiceUnavailable || ctx.Err() != nil {
			return w.Code
		}
		time.Sleep(time.Millisecond)
	}
}

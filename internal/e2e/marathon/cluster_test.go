// Package marathon tests the Marathon API with go-marathon, a client that was written for
// Marathon, against a scheduler with the embedded cluster. Tasks are plain processes, so the
// tests need neither root nor Docker.
package marathon

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gomarathon "github.com/gambol99/go-marathon"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/leader"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/local"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/reexec"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/control"
)

const waitTimeout = 2 * time.Minute

func TestMain(m *testing.M) {
	reexec.Main(m, reexec.CommandTable{"executor": reexec.ExecutorCommand(nil)})
}

// extension connects the controller to a scheduler as cmd/mesos-gpu does. handle is set when the
// scheduler leads, if it is not nil.
type extension struct {
	*control.Controller
	handle *atomic.Pointer[leader.ExtensionHandle]
}

func (e extension) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	if e.handle != nil {
		e.handle.Store(c)
	}
	return e.Run(ctx, c)
}

// logBuffer collects the log of a cluster. It is shown if the test fails.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *logBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func newLogger(t *testing.T) *logrus.Logger {
	s, log := &logBuffer{}, logrus.New()
	log.SetOutput(s)
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.Failed() {
			t.Logf("log of the cluster:\n%s", s.text.String())
		}
	})
	return log
}

// startLocalCluster runs a cluster until the test ends, and returns the URL of its API.
func startLocalCluster(t *testing.T) string {
	t.Helper()
	host, err := simulated.NewHost("2xV100", "here")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log, work := newLogger(t), t.TempDir()
	c := control.New(control.ControllerConfig{Settings: marathon.ParseSettings{GPUBehavior: marathon.GPUUnrestricted}, Version: "test", Log: log})
	ctx, stop := context.WithCancel(context.Background())
	up, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- local.Run(ctx, local.ClusterConfig{
			WorkDir: work, Hosts: []gpu.Host{host}, API: "127.0.0.1:0", Master: "127.0.0.1:0", Agent: "127.0.0.1:0", Binary: self,
			Scheduler: framework.SchedulerConfig{Extension: extension{c, nil}}, Log: log,
			ExecutorEnv: map[string]string{"GORACE": "atexit_sleep_ms=0"},
		}, func(at local.ClusterURLs) { up <- at.API })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the cluster ended: %v", err)
		}
	})
	select {
	case url := <-up:
		awaitLeader(t, url)
		return url
	case err := <-ended:
		ended <- nil
		t.Fatalf("the cluster did not start: %v", err)
	}
	return ""
}

// awaitLeader waits until the scheduler leads. The client marks a server that returns 503 as
// down and does not retry it.
func awaitLeader(t *testing.T, url string) {
	t.Helper()
	apachemesos.PollUntil(t, "the scheduler to lead", func() bool {
		answer, err := http.Get(url + "/v2/info")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
}

// client is the go-marathon client of a test.
type client struct {
	*testing.T
	gomarathon.Marathon
	url string
}

func newClient(t *testing.T, url string) *client {
	t.Helper()
	config := gomarathon.NewDefaultConfig()
	config.URL, config.EventsTransport, config.PollingWaitTime = url, gomarathon.EventsTransportSSE, 20*time.Millisecond
	c, err := gomarathon.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, c, url}
}

// runStep runs a step of the test as a subtest. If it fails the test ends, since later steps
// depend on it.
func (c *client) runStep(name string, do func(c *client)) {
	c.Helper()
	if !c.Run(name, func(t *testing.T) { do(&client{t, c.Marathon, c.url}) }) {
		c.FailNow()
	}
}

func (c *client) requireNoError(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// awaitDeployment waits until a deployment has ended.
func (c *client) awaitDeployment(d *gomarathon.DeploymentID, err error) {
	c.Helper()
	c.requireNoError(err)
	if d.DeploymentID == "" || d.Version == "" {
		c.Fatalf("got deployment %+v", d)
	}
	c.requireNoError(c.WaitOnDeployment(d.DeploymentID, waitTimeout))
}

// getApp returns the current state of an app.
func (c *client) getApp(id string) *gomarathon.Application {
	c.Helper()
	a, err := c.Application(id)
	c.requireNoError(err)
	return a
}

// listTasks returns the sorted IDs of the app's tasks. It requires that there are want tasks
// and that all are running.
func (c *client) listTasks(id string, want int) []string {
	c.Helper()
	list, err := c.Tasks(id)
	c.requireNoError(err)
	var ids []string
	for _, one := range list.Tasks {
		if one.State != "TASK_RUNNING" || one.AppID != id || one.Host == "" || one.SlaveID == "" || one.StartedAt == "" {
			c.Errorf("task of %s: %+v", id, one)
		}
		ids = append(ids, one.ID)
	}
	if len(ids) != want {
		c.Fatalf("%s runs %v, want %d", id, ids, want)
	}
	slices.Sort(ids)
	return ids
}

// requireRefusal checks that the API rejected the request with the error code of the client's
// package.
func (c *client) requireRefusal(err error, code int) {
	c.Helper()
	if refusal, ok := err.(*gomarathon.APIError); !ok || refusal.ErrCode != code {
		c.Errorf("got %v, want an API error with code %d", err, code)
	}
}

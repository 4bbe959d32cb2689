// Package marathon tests the API for apps from outside: a client that was
// written for Marathon drives a scheduler with the embedded cluster, whose
// tasks are processes, so that neither root nor an engine is needed.
package marathon

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	gomarathon "github.com/gambol99/go-marathon"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/leader"
	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/internal/local"
	"mesos-gpu/internal/reexec"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/control"
)

const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	reexec.Main(m, reexec.CommandTable{"executor": reexec.ExecutorCommand(nil)})
}

// extension is the control as cmd/mesos-gpu joins it to a scheduler.
type extension struct{ *control.Controller }

func (e extension) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	return e.Run(ctx, c)
}

// said is what the cluster logs, shown where a test fails.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func logger(t *testing.T) *logrus.Logger {
	s, log := &said{}, logrus.New()
	log.SetOutput(s)
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.Failed() {
			t.Logf("the cluster said:\n%s", s.text.String())
		}
	})
	return log
}

// start runs a cluster until the test ends, and returns the URL of its API.
func start(t *testing.T) string {
	t.Helper()
	host, err := simulated.NewHost("2xV100", "here")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log, work := logger(t), t.TempDir()
	c := control.New(control.ControllerConfig{Settings: marathon.ParseSettings{GPUBehavior: marathon.GPUUnrestricted}, Version: "test", Log: log})
	ctx, stop := context.WithCancel(context.Background())
	up, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- local.Run(ctx, local.ClusterConfig{
			WorkDir: work, Host: host, API: "127.0.0.1:0", Master: "127.0.0.1:0", Agent: "127.0.0.1:0", Binary: self,
			Scheduler: framework.SchedulerConfig{Extension: extension{c}}, Log: log,
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
		leads(t, url)
		return url
	case err := <-ended:
		ended <- nil
		t.Fatalf("the cluster did not start: %v", err)
	}
	return ""
}

// leads waits until a scheduler does: the client takes one that asks it to come
// again for one that is down, and asks no more.
func leads(t *testing.T, url string) {
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

// client is the existing one with a test around it.
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

// part is a part of the test with what came before it.
func (c *client) part(name string, do func(c *client)) {
	c.Helper()
	if !c.Run(name, func(t *testing.T) { do(&client{t, c.Marathon, c.url}) }) {
		c.FailNow()
	}
}

func (c *client) check(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// done waits until a deployment has ended.
func (c *client) done(d *gomarathon.DeploymentID, err error) {
	c.Helper()
	c.check(err)
	if d.DeploymentID == "" || d.Version == "" {
		c.Fatalf("got deployment %+v", d)
	}
	c.check(c.WaitOnDeployment(d.DeploymentID, patience))
}

// app is one as it is now.
func (c *client) app(id string) *gomarathon.Application {
	c.Helper()
	a, err := c.Application(id)
	c.check(err)
	return a
}

// tasks are the ids of the app's, sorted, all of which run.
func (c *client) tasks(id string, want int) []string {
	c.Helper()
	list, err := c.Tasks(id)
	c.check(err)
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

// refused checks that the API said no with that code of the client's.
func (c *client) refused(err error, code int) {
	c.Helper()
	if refusal, ok := err.(*gomarathon.APIError); !ok || refusal.ErrCode != code {
		c.Errorf("got %v, want a refusal of kind %d", err, code)
	}
}

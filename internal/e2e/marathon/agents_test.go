package marathon

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/leader"
	"mesos-gpu/internal/local/agent"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/control"
)

// marathonCluster is an embedded master and a scheduler. Tests add agents to it.
type marathonCluster struct {
	t      *testing.T
	log    *logrus.Logger
	binary string
	master *master.EmbeddedMaster
	agents map[string]*agent.EmbeddedAgent // by rack
	handle atomic.Pointer[leader.ExtensionHandle]
}

// awaitAttributes waits until the scheduler has the attributes of an agent from the master's list, which it
// requests now and then.
func (c *marathonCluster) awaitAttributes(agentID string) {
	c.t.Helper()
	apachemesos.PollUntil(c.t, "the attributes of agent "+agentID, func() bool { return c.handle.Load().AgentFields(agentID) != nil })
}

// startCluster starts a cluster without agents until the test ends, and returns the URL of the
// scheduler's API.
func startCluster(t *testing.T) (c *marathonCluster, url string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	c = &marathonCluster{t: t, log: newLogger(t), binary: self, agents: map[string]*agent.EmbeddedAgent{}}
	c.master = master.New(master.MasterConfig{Log: c.log, Addr: server.Listener.Addr().String(), AllocationInterval: 50 * time.Millisecond})
	server.Config.Handler = c.master.Handler()
	server.Start()
	t.Cleanup(server.Close)
	c.runUntilCleanup("master", c.master.Run)
	up := make(chan string, 1)
	ctl := control.New(control.ControllerConfig{Settings: marathon.ParseSettings{GPUBehavior: marathon.GPUUnrestricted}, Version: "test", Log: c.log})
	s, err := framework.New(framework.SchedulerConfig{
		Master: server.URL, APIAddr: "127.0.0.1:0", JournalPath: filepath.Join(t.TempDir(), "journal"), ExecutorPath: self,
		Extension: extension{ctl, &c.handle}, Log: c.log, Ready: func(addr string) { up <- "http://" + addr },
	})
	if err != nil {
		t.Fatal(err)
	}
	c.runUntilCleanup("scheduler", s.Run)
	url = <-up
	awaitLeader(t, url)
	return c, url
}

// runUntilCleanup runs a component of the cluster until the test ends. It fails the test if
// the component returns an error.
func (c *marathonCluster) runUntilCleanup(part string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			c.t.Errorf("%s ended: %v", part, err)
		}
	})
	c.t.Cleanup(func() { cancel(); running.Wait() })
}

// startAgent starts an agent whose attribute rack has the given value. Its containers are
// plain processes.
func (c *marathonCluster) startAgent(rack string) {
	c.t.Helper()
	server := httptest.NewUnstartedServer(nil)
	scalar := func(name string, value float64) mesos.Resource {
		return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
	}
	ports := &mesos.Value_Ranges{Range: []mesos.Value_Range{{Begin: 31000, End: 32000}}}
	a, err := agent.New(agent.AgentConfig{
		Log: c.log, Master: c.master, WorkDir: c.t.TempDir(), Addr: server.Listener.Addr().String(), Hostname: rack, ExecutorPath: c.binary,
		Resources: []mesos.Resource{
			scalar("cpus", 16), scalar("mem", 16384), scalar("disk", 10000), {Name: "ports", Type: mesos.RANGES.Enum(), Ranges: ports},
		},
		Attributes:  []mesos.Attribute{{Name: "rack", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: rack}}},
		ExecutorEnv: map[string]string{"GORACE": "atexit_sleep_ms=0"}, RetryMin: 200 * time.Millisecond, RetryMax: time.Second,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	server.Config.Handler = a.Handler()
	server.Start()
	c.t.Cleanup(server.Close)
	c.runUntilCleanup("agent "+rack, a.Run)
	<-a.Ready()
	c.agents[rack] = a
}

package crash

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/local/agent"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/simulated"
)

// The number of agents, and of V100s on each.
const (
	agents       = 3
	gpusPerAgent = 2
)

// crashCluster is an embedded master with agents that run real executors. None of them is
// killed in these tests.
type crashCluster struct {
	t      testing.TB
	url    string // of the master
	binary string
	logs   string
	api    http.Handler // of the master
}

func newCluster(t testing.TB) *crashCluster {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	c := &crashCluster{t: t, binary: binary, logs: t.TempDir()}
	m := master.New(master.MasterConfig{Log: c.newLogger("master"), Addr: server.Listener.Addr().String(), AllocationInterval: 100 * time.Millisecond})
	c.api = m.Handler()
	server.Config.Handler = c.api
	server.Start()
	c.url = server.URL
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) }) // always returns nil
	t.Cleanup(func() { cancel(); running.Wait(); server.Close() })
	for n := range agents {
		c.startAgent(m, fmt.Sprint("127.0.0.", n+2))
	}
	t.Cleanup(c.printLogs)
	return c
}

// startAgent starts an agent at an IP address, which is also its host name: the scheduler, too, calls its API. Its containers
// are plain processes.
func (c *crashCluster) startAgent(m *master.EmbeddedMaster, ip string) {
	c.t.Helper()
	host, err := simulated.NewHost(fmt.Sprintf("%dxV100", gpusPerAgent), ip)
	if err != nil {
		c.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		c.t.Fatal(err)
	}
	a, err := agent.New(agent.AgentConfig{
		Log: c.newLogger("agent-" + ip), Master: m, WorkDir: c.t.TempDir(), Addr: listener.Addr().String(), Hostname: ip,
		Resources:    append(advertise.MachineGPUs{Host: host}.Resources(""), scalar("cpus", 16), scalar("mem", 16384), scalar("disk", 10000)),
		Attributes:   advertise.MachineGPUs{Host: host}.Attributes(),
		ExecutorPath: c.binary, RetryMin: 200 * time.Millisecond, RetryMax: time.Second,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: a.Handler()}}
	server.Start()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("agent %s ended with %v", ip, err)
		}
		server.Close()
	})
	<-a.Ready()
}

func scalar(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
}

// newLogger returns a logger that writes to a file, which show prints.
func (c *crashCluster) newLogger(name string) logrus.FieldLogger {
	f, err := os.Create(filepath.Join(c.logs, name+".log"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = f.Close() }) // a lost line of a test's log is acceptable
	l := logrus.New()
	l.SetOutput(f)
	l.SetFormatter(newFormatter())
	return l
}

func newFormatter() logrus.Formatter {
	return &logrus.TextFormatter{DisableColors: true, TimestampFormat: "15:04:05.000", FullTimestamp: true}
}

// printLogs prints the ends of all logs if the test has failed.
func (c *crashCluster) printLogs() {
	if !c.t.Failed() {
		return
	}
	files, _ := filepath.Glob(filepath.Join(c.logs, "*.log")) // the pattern is valid
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			c.t.Error(err)
		}
		c.t.Logf("%s:\n%s", filepath.Base(f), text[max(0, len(text)-6000):])
	}
}

// newAddress returns an address for an API that several processes use one after the other.
// Unlike on 127.0.0.1, no outgoing connection of this machine can take its port while no
// process listens.
func newAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.77:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// callMaster makes an operator call to the master.
func (c *crashCluster) callMaster(kind operator.Call_Type) (*operator.Response, error) {
	body, err := proto.Marshal(&operator.Call{Type: kind})
	if err != nil {
		return nil, err
	}
	r := httptest.NewRequest(http.MethodPost, "/api/v1", bytes.NewReader(body))
	r.Header.Set("Content-Type", mesosapi.Protobuf)
	r.Header.Set("Accept", mesosapi.Protobuf)
	recorder := httptest.NewRecorder()
	c.api.ServeHTTP(recorder, r)
	if recorder.Code >= 300 {
		return nil, fmt.Errorf("%s: %d %s", kind, recorder.Code, recorder.Body)
	}
	response := &operator.Response{}
	return response, proto.Unmarshal(recorder.Body.Bytes(), response)
}

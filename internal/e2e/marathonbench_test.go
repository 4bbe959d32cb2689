package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	mesosgo "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/resources"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework"
	"mesos-gpu/framework/leader"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/internal/testing/cputime"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/control"
)

// manyInstances is the number of deployed instances.
const manyInstances = 1000

// instantAgent is an agent without executors: a task runs as soon as it is launched.
type instantAgent struct {
	master   *master.EmbeddedMaster
	id       mesosgo.AgentID
	launched func()
}

func (a *instantAgent) Run(f mesosgo.FrameworkInfo, _ mesosgo.ExecutorInfo, t mesosgo.TaskInfo) {
	a.launched()
	a.sendStatus(*f.ID, t.TaskID, mesosgo.TASK_RUNNING)
}

func (a *instantAgent) Kill(f mesosgo.FrameworkID, t mesosgo.TaskID, _ *mesosgo.KillPolicy) {
	a.sendStatus(f, t, mesosgo.TASK_KILLED)
}

func (a *instantAgent) sendStatus(f mesosgo.FrameworkID, t mesosgo.TaskID, state mesosgo.TaskState) {
	id := uuid.New()
	a.master.Status(a.id, f, mesosgo.TaskStatus{TaskID: t, State: &state, Source: mesosgo.SOURCE_EXECUTOR.Enum(), UUID: id[:]})
}

func (*instantAgent) Acknowledge(mesosgo.FrameworkID, mesosgo.TaskID, []byte)  {}
func (*instantAgent) ShutdownExecutor(mesosgo.FrameworkID, mesosgo.ExecutorID) {}
func (*instantAgent) ReconcileTasks(mesosgo.FrameworkInfo, []mesosgo.TaskID)   {}
func (*instantAgent) Message(mesosgo.FrameworkID, mesosgo.ExecutorID, []byte)  {}
func (*instantAgent) ShutdownFramework(mesosgo.FrameworkID)                    {}

// appExtension connects the controller to a scheduler as cmd/mesos-gpu does.
type appExtension struct{ *control.Controller }

func (a appExtension) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	return a.Run(ctx, c)
}

// BenchmarkMarathonDeploy deploys one app of 1,000 instances, from the POST until the API
// counts all of them as running. It includes the embedded master with offers each second, the
// scheduler with its journal on disk or in ZooKeeper, and the Marathon API. The simulated agents
// together have capacity for exactly all instances and start tasks immediately, so the work of
// real agents is not measured. The CPU time is that of all of these and of the client.
func BenchmarkMarathonDeploy(b *testing.B) {
	for _, agents := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("agents=%d", agents), func(b *testing.B) {
			measureDeployments(b, agents, func(int) string { return filepath.Join(b.TempDir(), "journal") })
		})
	}
	b.Run("agents=1000/zookeeper", func(b *testing.B) {
		server := zktest.StartServer(b)
		measureDeployments(b, 1000, func(i int) string { return fmt.Sprintf("zk://%s/journal-%d", server.Addr(), i) })
	})
}

// measureDeployments reports the time until the last task was launched on its agent, the time
// until the API reported all as running, and the CPU time. Each deployment has a new journal.
func measureDeployments(b *testing.B, agents int, journalPath func(i int) string) {
	var launched, running, spent time.Duration
	i := 0
	for b.Loop() {
		b.StopTimer()
		one := deploy(b, agents, journalPath(i))
		launched, running, spent = launched+one.launched, running+one.running, spent+one.spent
		b.StartTimer()
		i++
	}
	n := float64(i)
	b.ReportMetric(launched.Seconds()/n, "s-to-launch")
	b.ReportMetric(running.Seconds()/n, "s-to-run")
	b.ReportMetric(spent.Seconds()/n, "cpu-s")
	b.ReportMetric(manyInstances*n/running.Seconds(), "instances/s")
}

// TestSpeedOfDeployment fails if a deployment takes twice the CPU time that it took when the range was measured.
func TestSpeedOfDeployment(t *testing.T) {
	if !testneeds.IsLongRun() {
		t.Skip("make test-long compares CPU times")
	}
	ratio := cputime.MeasureRatio(t, 3, func() { deploy(t, 1000, filepath.Join(t.TempDir(), "journal")) })
	cputime.CheckRanges(t, cputime.Figure{
		Name:  "CPU time of a service of 1,000 tasks on 1,000 agents until all run, divided by that of the reference",
		Got:   ratio,
		Least: 0.7,
		Most:  3,
	})
}

// deploymentCost is how long a deployment took from its POST, and the CPU time of the process meanwhile.
type deploymentCost struct{ launched, running, spent time.Duration }

func deploy(b testing.TB, agents int, journalPath string) (cost deploymentCost) {
	var last latestTime
	log := newSilentLogger()
	address, stop := startOnInstantAgents(b, func(m *master.EmbeddedMaster) { registerAgents(b, m, agents, last.setNow) }, framework.SchedulerConfig{
		Extension: appExtension{control.New(control.ControllerConfig{Settings: marathon.ParseSettings{}, Log: log})}, Log: log, JournalPath: journalPath,
	})
	defer stop()
	api := address + "/v2/apps"
	awaitLead(b, api)

	began, spent := time.Now(), cputime.Read(b)
	body := fmt.Sprintf(`{"id": "/many", "cmd": "sleep 1000", "cpus": 0.9, "mem": 64, "instances": %d}`, manyInstances)
	resp, err := http.Post(api, "application/json", strings.NewReader(body))
	if err != nil || resp.StatusCode != http.StatusCreated {
		b.Fatalf("deploy: %v, %+v", err, resp)
	}
	resp.Body.Close()
	for countRunning(b, api+"?embed=apps.counts") < manyInstances { // an answer about one app would contain its tasks
		time.Sleep(20 * time.Millisecond) // more frequent polling distorts the measurement
	}
	return deploymentCost{last.get().Sub(began), time.Since(began), cputime.Read(b) - spent}
}

func newSilentLogger() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// startOnInstantAgents starts an embedded master, which register gives its agents, and a scheduler, by default with its
// journal on disk. It returns the address of the scheduler's API, and what stops both.
func startOnInstantAgents(b testing.TB, register func(*master.EmbeddedMaster), cfg framework.SchedulerConfig) (address string, stop func()) {
	b.Helper()
	server := httptest.NewUnstartedServer(nil)
	m := master.New(master.MasterConfig{Addr: server.Listener.Addr().String()})
	server.Config.Handler = m.Handler()
	server.Start()
	register(m)
	up := make(chan string, 1)
	cfg.Master, cfg.APIAddr, cfg.ExecutorPath = server.URL, "127.0.0.1:0", "/bin/true"
	cfg.JournalPath = cmp.Or(cfg.JournalPath, filepath.Join(b.TempDir(), "journal"))
	cfg.Ready = func(addr string) { up <- "http://" + addr }
	s, err := framework.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	for _, run := range []func(context.Context) error{m.Run, s.Run} {
		parts.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				b.Error(err)
			}
		})
	}
	return <-up, func() { cancel(); parts.Wait(); server.Close() }
}

// registerAgents registers agents that together have capacity for exactly all instances.
func registerAgents(b testing.TB, m *master.EmbeddedMaster, agents int, launched func()) {
	b.Helper()
	each := float64(manyInstances / agents)
	for i := range agents {
		a := &instantAgent{master: m, launched: launched}
		var err error
		a.id, err = m.Register(mesosgo.AgentInfo{Hostname: fmt.Sprintf("10.0.%d.%d", i/250, i%250)}, []mesosgo.Resource{
			resources.NewCPUs(each).Resource, resources.NewMemory(each * 128).Resource,
			resources.Build().Name(resources.NamePorts).Ranges(resources.BuildRanges().Span(31000, 32000).Ranges).Resource,
		}, nil, a)
		if err != nil {
			b.Fatal(err)
		}
	}
}

// awaitLead waits until the scheduler leads.
func awaitLead(b testing.TB, api string) {
	for {
		resp, err := http.Get(api)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func countRunning(b testing.TB, url string) int {
	resp, err := http.Get(url)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct{ Apps []appView }
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Apps) != 1 {
		b.Fatalf("%+v, %v", list, err)
	}
	return list.Apps[0].TasksRunning
}

// latestTime stores the time of the latest event.
type latestTime struct {
	mu sync.Mutex
	t  time.Time
}

func (l *latestTime) setNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t = time.Now()
}

func (l *latestTime) get() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.t
}

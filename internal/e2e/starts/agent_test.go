// Package starts contains benchmarks of how long a task takes to start through the executor,
// compared with the same container started by docker run, by runc run and by Mesos's own
// docker executor.
package starts

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/sirupsen/logrus"

	"mesos-gpu/internal/local/agent"
	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// buildProgram builds mesos-gpu as it is released, without the race detector, and returns its
// path.
func buildProgram(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "mesos-gpu")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", path, "mesos-gpu/cmd/mesos-gpu").CombinedOutput(); err != nil {
		b.Fatalf("build mesos-gpu: %v\n%s", err, out)
	}
	return path
}

var frameworkInfo = mesos.FrameworkInfo{ID: &mesos.FrameworkID{Value: "starts"}, Name: "starts", User: "root"}

// taskTimes records when the master received the status updates of a task.
type taskTimes struct {
	startingAt, runningAt time.Time
	// message is set if the task ended before it ran.
	message        string
	settled        chan struct{} // closed at TASK_RUNNING or at a terminal state
	executorExited chan struct{} // closed once the executor has exited
}

// benchmarkAgent is an embedded agent together with the master that it registers with.
type benchmarkAgent struct {
	program  string
	embedded *agent.EmbeddedAgent
	mu       sync.Mutex
	agent    link.AgentLink
	tasks    map[string]*taskTimes
}

// startAgent runs an agent, which isolates the devices of its containers, until the benchmark
// ends.
func startAgent(b *testing.B, program, images string) *benchmarkAgent {
	b.Helper()
	testneeds.RequireDevicesCgroup(b)
	log := logrus.New()
	log.SetOutput(io.Discard)
	e := &benchmarkAgent{program: program, tasks: map[string]*taskTimes{}}
	server := httptest.NewUnstartedServer(nil)
	work := b.TempDir()
	self, err := agent.New(agent.AgentConfig{
		Log: log, Master: e, WorkDir: filepath.Join(work, "agent"), Addr: server.Listener.Addr().String(), Root: true, ExecutorPath: program, ImagesDir: images,
		ExecutorEnv: map[string]string{"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "MESOS_GPU_VOLUMES": filepath.Join(work, "volumes")},
	})
	if err != nil {
		b.Fatal(err)
	}
	e.embedded = self
	server.Config.Handler = self.Handler()
	server.Start()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- self.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
		server.Close()
	})
	<-self.Ready()
	return e
}

// launchTask launches a task as a master would and returns the time of the launch.
func (e *benchmarkAgent) launchTask(b *testing.B, id string, container *mesos.ContainerInfo) (*taskTimes, time.Time) {
	s := &taskTimes{settled: make(chan struct{}), executorExited: make(chan struct{})}
	e.mu.Lock()
	e.tasks[id] = s
	e.mu.Unlock()
	task, executor := newSleepTask(b, e.program, id, container)
	began := time.Now()
	e.agent.Run(frameworkInfo, executor, task)
	return s, began
}

// newSleepTask returns a task that sleeps, and the executor that runs it.
func newSleepTask(b *testing.B, program, id string, container *mesos.ContainerInfo) (mesos.TaskInfo, mesos.ExecutorInfo) {
	data, err := json.Marshal(job.LaunchData{Version: job.LaunchVersion, Job: "starts", Command: sleepCommand})
	if err != nil {
		b.Fatal(err)
	}
	shell := false
	return mesos.TaskInfo{
			Name: id, TaskID: mesos.TaskID{Value: id}, Data: data, Container: container,
			Resources: []mesos.Resource{scalarResource("cpus", taskCPUs), scalarResource("mem", taskMem)},
		}, mesos.ExecutorInfo{
			Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: id},
			Command:   &mesos.CommandInfo{Shell: &shell, Value: &program, Arguments: []string{"mesos-gpu", "executor"}},
			Resources: []mesos.Resource{scalarResource("cpus", 0.1), scalarResource("mem", 32)},
		}
}

const (
	taskCPUs      = 0.125
	taskCPUShares = 128 // the same amount of CPU; 1024 is one CPU
	taskMem       = 64
)

var sleepCommand = []string{"sleep", "1000"}

func scalarResource(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
}

// awaitRunning waits for TASK_RUNNING. It fails the benchmark if the task ends first.
func (s *taskTimes) awaitRunning(b *testing.B) {
	<-s.settled
	if s.runningAt.IsZero() {
		b.Error(s.message)
	}
}

// killTask kills the task and waits until its executor has exited.
func (e *benchmarkAgent) killTask(id string, s *taskTimes) {
	none := int64(0)
	e.agent.Kill(*frameworkInfo.ID, mesos.TaskID{Value: id}, &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: none}})
	<-s.executorExited
}

// Register and the methods below implement link.MasterLink.
func (e *benchmarkAgent) Register(_ mesos.AgentInfo, _ []mesos.Resource, _ []link.RunningExecutor, a link.AgentLink) (mesos.AgentID, error) {
	e.agent = a
	return mesos.AgentID{Value: "agent-1"}, nil
}

func (e *benchmarkAgent) Status(_ mesos.AgentID, f mesos.FrameworkID, status mesos.TaskStatus) {
	now := time.Now()
	e.mu.Lock()
	s := e.tasks[status.TaskID.Value]
	switch state := status.GetState(); {
	case state == mesos.TASK_STARTING && s.startingAt.IsZero():
		s.startingAt = now
	case state == mesos.TASK_RUNNING && s.runningAt.IsZero():
		s.runningAt = now
		close(s.settled)
	case state != mesos.TASK_STARTING && state != mesos.TASK_RUNNING && s.runningAt.IsZero() && s.message == "":
		s.message = fmt.Sprintf("task %s: %s: %s", status.TaskID.Value, state, status.GetMessage())
		close(s.settled)
	}
	e.mu.Unlock()
	e.agent.Acknowledge(f, status.TaskID, status.UUID)
}

func (e *benchmarkAgent) ExecutorExited(_ mesos.AgentID, _ mesos.FrameworkID, x mesos.ExecutorID, _ int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.tasks[x.Value].executorExited)
}

func (e *benchmarkAgent) UpdateTotal(mesos.AgentID, []mesos.Resource) {}

func (e *benchmarkAgent) Lost(mesos.AgentID) {}

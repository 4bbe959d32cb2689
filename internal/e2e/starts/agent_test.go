// Package starts measures how long a task takes to start through the
// executor, side by side with what starts the same without it: docker run,
// runc run and Mesos's own docker executor. It holds benchmarks alone.
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
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/job"
)

// build makes the program as it is released, without the race detector.
func build(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "mesos-gpu")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", path, "mesos-gpu/cmd/mesos-gpu").CombinedOutput(); err != nil {
		b.Fatalf("build mesos-gpu: %v\n%s", err, out)
	}
	return path
}

var framework = mesos.FrameworkInfo{ID: &mesos.FrameworkID{Value: "starts"}, Name: "starts", User: "root"}

// started is when the states of a task were heard of.
type started struct {
	up, running time.Time
	// message is that of an end that came before.
	message string
	begun   chan struct{} // closed at TASK_RUNNING, or the end
	ended   chan struct{} // closed once the executor has exited
}

// embedded is an embedded agent and, to it, the master.
type embedded struct {
	program string
	self    *agent.EmbeddedAgent
	mu      sync.Mutex
	agent   link.AgentLink
	tasks   map[string]*started
}

// startAgent runs an agent, which confines its containers, until the end.
func startAgent(b *testing.B, program, images string) *embedded {
	b.Helper()
	testneeds.RequireDevicesCgroup(b)
	log := logrus.New()
	log.SetOutput(io.Discard)
	e := &embedded{program: program, tasks: map[string]*started{}}
	server := httptest.NewUnstartedServer(nil)
	work := b.TempDir()
	self, err := agent.New(agent.AgentConfig{
		Log: log, Master: e, WorkDir: filepath.Join(work, "agent"), Addr: server.Listener.Addr().String(), Root: true, ExecutorPath: program, ImagesDir: images,
		ExecutorEnv: map[string]string{"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "MESOS_GPU_VOLUMES": filepath.Join(work, "volumes")},
	})
	if err != nil {
		b.Fatal(err)
	}
	e.self = self
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

// start launches a task, as a master would, and returns when that began.
func (e *embedded) start(b *testing.B, id string, container *mesos.ContainerInfo) (*started, time.Time) {
	s := &started{begun: make(chan struct{}), ended: make(chan struct{})}
	e.mu.Lock()
	e.tasks[id] = s
	e.mu.Unlock()
	task, executor := ours(b, e.program, id, container)
	began := time.Now()
	e.agent.Run(framework, executor, task)
	return s, began
}

// ours is a task that sleeps, and an executor for it.
func ours(b *testing.B, program, id string, container *mesos.ContainerInfo) (mesos.TaskInfo, mesos.ExecutorInfo) {
	data, err := json.Marshal(job.LaunchData{Version: job.LaunchVersion, Job: "starts", Command: sleep})
	if err != nil {
		b.Fatal(err)
	}
	shell := false
	return mesos.TaskInfo{
			Name: id, TaskID: mesos.TaskID{Value: id}, Data: data, Container: container,
			Resources: []mesos.Resource{amount("cpus", taskCPUs), amount("mem", taskMem)},
		}, mesos.ExecutorInfo{
			Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: id},
			Command:   &mesos.CommandInfo{Shell: &shell, Value: &program, Arguments: []string{"mesos-gpu", "executor"}},
			Resources: []mesos.Resource{amount("cpus", 0.1), amount("mem", 32)},
		}
}

const (
	taskCPUs = 0.125
	shares   = 128 // of 1024, for as much
	taskMem  = 64
)

var sleep = []string{"sleep", "1000"}

func amount(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
}

// await waits for TASK_RUNNING.
func (s *started) await(b *testing.B) {
	<-s.begun
	if s.running.IsZero() {
		b.Error(s.message)
	}
}

// end kills the task and waits until its executor is gone.
func (e *embedded) end(id string, s *started) {
	none := int64(0)
	e.agent.Kill(*framework.ID, mesos.TaskID{Value: id}, &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: none}})
	<-s.ended
}

// Register implements link.MasterLink, as the methods below.
func (e *embedded) Register(_ mesos.AgentInfo, _ []mesos.Resource, _ []link.RunningExecutor, a link.AgentLink) (mesos.AgentID, error) {
	e.agent = a
	return mesos.AgentID{Value: "agent-1"}, nil
}

func (e *embedded) Status(_ mesos.AgentID, f mesos.FrameworkID, status mesos.TaskStatus) {
	now := time.Now()
	e.mu.Lock()
	s := e.tasks[status.TaskID.Value]
	switch state := status.GetState(); {
	case state == mesos.TASK_STARTING && s.up.IsZero():
		s.up = now
	case state == mesos.TASK_RUNNING && s.running.IsZero():
		s.running = now
		close(s.begun)
	case state != mesos.TASK_STARTING && state != mesos.TASK_RUNNING && s.running.IsZero() && s.message == "":
		s.message = fmt.Sprintf("task %s: %s: %s", status.TaskID.Value, state, status.GetMessage())
		close(s.begun)
	}
	e.mu.Unlock()
	e.agent.Acknowledge(f, status.TaskID, status.UUID)
}

func (e *embedded) ExecutorExited(_ mesos.AgentID, _ mesos.FrameworkID, x mesos.ExecutorID, _ int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.tasks[x.Value].ended)
}

func (e *embedded) UpdateTotal(mesos.AgentID, []mesos.Resource) {}

func (e *embedded) Lost(mesos.AgentID) {}

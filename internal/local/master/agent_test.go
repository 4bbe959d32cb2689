package master

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
)

// registeringAgent is a link.AgentLink that records its calls.
type registeringAgent struct {
	id    mesos.AgentID
	runs  chan run
	other chan string
}

type run struct {
	framework mesos.FrameworkInfo
	executor  mesos.ExecutorInfo
	task      mesos.TaskInfo
}

func newAgent() *registeringAgent {
	return &registeringAgent{runs: make(chan run, 100), other: make(chan string, 100)}
}

func (a *registeringAgent) Run(f mesos.FrameworkInfo, e mesos.ExecutorInfo, t mesos.TaskInfo) {
	a.runs <- run{f, e, t}
}

func (a *registeringAgent) Kill(f mesos.FrameworkID, task mesos.TaskID, policy *mesos.KillPolicy) {
	a.other <- fmt.Sprintf("kill %s grace %d", task.Value, policy.GetGracePeriod().GetNanoseconds())
}

func (a *registeringAgent) Acknowledge(f mesos.FrameworkID, task mesos.TaskID, uuid []byte) {
	a.other <- fmt.Sprintf("acknowledge %s %d", task.Value, len(uuid))
}

func (a *registeringAgent) ShutdownExecutor(f mesos.FrameworkID, e mesos.ExecutorID) {
	a.other <- "shutdown executor " + e.Value
}

func (a *registeringAgent) ReconcileTasks(_ mesos.FrameworkInfo, tasks []mesos.TaskID) {
	for _, t := range tasks {
		a.other <- "reconcile " + t.Value
	}
}

func (a *registeringAgent) Message(_ mesos.FrameworkID, e mesos.ExecutorID, data []byte) {
	a.other <- "message " + e.Value + " " + string(data)
}

func (a *registeringAgent) ShutdownFramework(f mesos.FrameworkID) { a.other <- "shutdown framework" }

func (a *registeringAgent) nextRun(t *testing.T) run {
	t.Helper()
	select {
	case r := <-a.runs:
		return r
	case <-time.After(patience):
		t.Fatal("the agent was told to run nothing")
		return run{}
	}
}

func (a *registeringAgent) wants(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-a.other:
		if got != want {
			t.Fatalf("agent was told %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("agent was not told %q", want)
	}
}

// lastPort is the port of the agent that was described last.
var lastPort atomic.Int32

// agentInfo describes an agent with an address of its own.
func agentInfo() mesos.AgentInfo {
	return mesos.AgentInfo{
		Hostname: "127.0.0.1", Port: proto.Int32(5051 + lastPort.Add(1)),
		Attributes: []mesos.Attribute{{Name: "gpu_type", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: "V100"}}},
	}
}

const (
	cpuAgent = "cpus:4;mem:4096;disk:10000"
	gpuAgent = cpuAgent + ";gpus:2;gpu_ids:{A,B}"
)

func register(t *testing.T, m *EmbeddedMaster, total string) *registeringAgent {
	t.Helper()
	a := newAgent()
	id, err := m.Register(agentInfo(), res(total), nil, a)
	if err != nil {
		t.Fatal(err)
	}
	a.id = id
	return a
}

// again registers an agent again after its process has restarted, with its running
// executors.
func (a *registeringAgent) again(t *testing.T, m *EmbeddedMaster, total string, running ...link.RunningExecutor) *registeringAgent {
	t.Helper()
	b := newAgent()
	b.id = a.id
	b.rejoin(t, m, total, running...)
	return b
}

// rejoin registers the same process again.
func (a *registeringAgent) rejoin(t *testing.T, m *EmbeddedMaster, total string, running ...link.RunningExecutor) {
	t.Helper()
	known := agentInfo()
	known.ID = &a.id
	if id, err := m.Register(known, res(total), running, a); err != nil || id != a.id {
		t.Fatalf("got id %v, err %v, want id %v", id, err, a.id)
	}
}

// status sends one and returns its uuid.
func (a *registeringAgent) status(m *EmbeddedMaster, f *mesos.FrameworkID, task string, state mesos.TaskState) []byte {
	id := uuid.New()
	m.Status(a.id, *f, mesos.TaskStatus{
		TaskID: mesos.TaskID{Value: task}, State: state.Enum(), Source: mesos.SOURCE_EXECUTOR.Enum(),
		UUID: id[:], Timestamp: unixSeconds(time.Now()), Data: []byte("data"),
	})
	return id[:]
}

func taskInfo(id string, agent mesos.AgentID, resources string) mesos.TaskInfo {
	return mesos.TaskInfo{
		Name: id, TaskID: mesos.TaskID{Value: id}, AgentID: agent, Resources: res(resources),
		Command: &mesos.CommandInfo{Value: proto.String("true")},
	}
}

// custom returns the task with an executor of its own.
func custom(t mesos.TaskInfo, executor, resources string) mesos.TaskInfo {
	t.Command = nil
	t.Executor = &mesos.ExecutorInfo{
		Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: executor},
		Command: &mesos.CommandInfo{Value: proto.String("executor")}, Resources: res(resources),
	}
	return t
}

//go:build !mesos

package checklist

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/local/master"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/updates"
)

// agent is a scripted agent: it runs nothing. It reports RUNNING for launched tasks and
// KILLED for killed ones, and other states when the test calls say or end.
type agent struct {
	machine
	t testing.TB

	mu      sync.Mutex
	port    int32 // of its API, which it serves at its machine's address
	id      mesos.AgentID
	master  link.MasterLink
	tasks   map[string]runs
	over    map[string]runs        // ended tasks whose terminal update is not sent yet
	ended   map[string]runs        // all ended tasks
	streams *updates.UpdateStreams // unacknowledged updates
}

type runs struct {
	framework mesos.FrameworkInfo
	executor  mesos.ExecutorInfo
	task      mesos.TaskInfo
	state     mesos.TaskState // the last one that was reported
}

var _ link.AgentLink = (*agent)(nil)

// repeatAfter is the delay before an unacknowledged update is sent again.
const repeatAfter = 3 * time.Second

func newAgent(t testing.TB, m machine) *agent {
	t.Helper()
	a := &agent{
		t: t, machine: m, tasks: map[string]runs{}, over: map[string]runs{}, ended: map[string]runs{},
		streams: updates.New(repeatAfter, repeatAfter),
	}
	a.serveAPI()
	ended := make(chan struct{})
	var repeats sync.WaitGroup
	repeats.Go(func() {
		tick := time.NewTicker(repeatAfter / 10)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				a.sendUpdates(func() []updates.PendingUpdate { return a.streams.DueUpdates(now) })
			case <-ended:
				return
			}
		}
	})
	t.Cleanup(func() { close(ended); repeats.Wait() })
	return a
}

// sendUpdates sends the master the updates that streams returns; it calls streams with mu held. An
// executor has exited once its task's terminal update is sent.
func (a *agent) sendUpdates(streams func() []updates.PendingUpdate) {
	a.mu.Lock()
	updates, m, id := streams(), a.master, a.id
	a.mu.Unlock()
	for _, u := range updates {
		m.Status(id, mesos.FrameworkID{Value: u.Framework}, u.Status)
		a.mu.Lock()
		r, exits := a.over[u.Task]
		exits = exits && events.IsTerminal(u.Status.GetState())
		if exits {
			delete(a.over, u.Task)
		}
		a.mu.Unlock()
		if exits {
			m.ExecutorExited(id, *r.framework.ID, r.executor.ExecutorID, 0)
		}
	}
}

func scalar(name string, value float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: value}}
}

// registerWith registers with a master, including all running tasks, and sends unacknowledged
// updates again.
func (a *agent) registerWith(m *master.EmbeddedMaster) {
	a.mu.Lock()
	info := mesos.AgentInfo{Hostname: a.ip, Port: new(a.port)}
	if known := a.id; known.Value != "" {
		info.ID = &known
	}
	total := []mesos.Resource{scalar("cpus", 8), scalar("mem", 8192), scalar("disk", 10000)}
	if a.gpus > 0 {
		total = append(total, scalar("gpus", float64(a.gpus)))
		info.Attributes = []mesos.Attribute{{Name: "gpu_type", Type: mesos.TEXT, Text: &mesos.Value_Text{Value: "V100"}}}
	}
	var running []link.RunningExecutor
	for _, id := range slices.Sorted(maps.Keys(a.tasks)) {
		r := a.tasks[id]
		running = append(running, link.RunningExecutor{Framework: r.framework, Executor: r.executor, Tasks: []mesos.TaskInfo{r.task}})
	}
	a.master = m
	a.mu.Unlock()
	id, err := m.Register(info, total, running, a)
	if err != nil {
		a.t.Errorf("register agent %s: %v", a.ip, err)
	}
	a.mu.Lock()
	a.id = id
	a.mu.Unlock()
	a.sendUpdates(func() []updates.PendingUpdate { return a.streams.Unacknowledged(time.Now()) })
}

// Run implements link.AgentLink.
func (a *agent) Run(f mesos.FrameworkInfo, e mesos.ExecutorInfo, t mesos.TaskInfo) {
	a.mu.Lock()
	a.tasks[t.TaskID.Value] = runs{framework: f, executor: e, task: t, state: mesos.TASK_STAGING}
	a.mu.Unlock()
	a.sendStatus(t.TaskID.Value, mesos.TASK_RUNNING, func(s *mesos.TaskStatus) { s.Message = proto.String("up") })
}

// Kill implements link.AgentLink.
func (a *agent) Kill(_ mesos.FrameworkID, task mesos.TaskID, _ *mesos.KillPolicy) {
	a.endTask(task.Value, mesos.TASK_KILLED)
}

// Acknowledge implements link.AgentLink.
func (a *agent) Acknowledge(f mesos.FrameworkID, task mesos.TaskID, id []byte) {
	a.sendUpdates(func() []updates.PendingUpdate {
		_, next, _ := a.streams.Ack(time.Now(), updates.TaskKey{Framework: f.Value, Task: task.Value}, id)
		return next
	})
}

// ReconcileTasks implements link.AgentLink.
func (a *agent) ReconcileTasks(f mesos.FrameworkInfo, tasks []mesos.TaskID) {
	a.sendUpdates(func() (all []updates.PendingUpdate) {
		for _, task := range tasks {
			key := updates.TaskKey{Framework: f.ID.Value, Task: task.Value}
			if _, runs := a.tasks[task.Value]; runs || a.streams.HasPending(key) {
				continue
			}
			id, agent := uuid.New(), a.id
			all = append(all, a.streams.Add(time.Now(), key, mesos.TaskStatus{
				TaskID: task, AgentID: &agent, State: mesos.TASK_DROPPED.Enum(), Source: mesos.SOURCE_AGENT.Enum(),
				Reason: mesos.REASON_RECONCILIATION.Enum(), UUID: id[:],
			})...)
		}
		return all
	})
}

// Message implements link.AgentLink.
func (a *agent) Message(mesos.FrameworkID, mesos.ExecutorID, []byte) {}

// ShutdownExecutor implements link.AgentLink. The executor's name is its task's.
func (a *agent) ShutdownExecutor(_ mesos.FrameworkID, e mesos.ExecutorID) {
	a.endTask(e.Value, mesos.TASK_KILLED)
}

// ShutdownFramework implements link.AgentLink.
func (a *agent) ShutdownFramework(f mesos.FrameworkID) {
	for _, id := range a.runningTasks("") {
		a.mu.Lock()
		if r := a.tasks[id]; *r.framework.ID == f {
			delete(a.tasks, id)
		}
		a.mu.Unlock()
	}
}

// runningTasks returns the ids of the job's running tasks; of all jobs if name is empty.
func (a *agent) runningTasks(name string) (ids []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range a.tasks {
		if name == "" || strings.HasPrefix(id, name+".") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// sendStatus sends a status update of a running task, once the earlier ones are acknowledged.
// change may be nil.
func (a *agent) sendStatus(task string, state mesos.TaskState, change func(*mesos.TaskStatus)) {
	id := uuid.New()
	a.sendUpdates(func() []updates.PendingUpdate {
		r, runs := a.tasks[task]
		if !runs {
			return nil
		}
		r.state = state
		a.tasks[task] = r
		agent := a.id
		s := mesos.TaskStatus{
			TaskID: mesos.TaskID{Value: task}, AgentID: &agent, ExecutorID: &r.executor.ExecutorID, State: &state,
			Source: mesos.SOURCE_EXECUTOR.Enum(), UUID: id[:],
		}
		if change != nil {
			change(&s)
		}
		return a.streams.Add(time.Now(), updates.TaskKey{Framework: r.framework.ID.Value, Task: task}, s)
	})
}

// endTask sends a terminal update and releases the task's resources.
func (a *agent) endTask(task string, state mesos.TaskState) {
	a.mu.Lock()
	r, runs := a.tasks[task]
	if runs {
		a.over[task] = r
	}
	a.mu.Unlock()
	a.sendStatus(task, state, nil)
	a.mu.Lock()
	if runs {
		a.ended[task] = a.tasks[task]
	}
	delete(a.tasks, task)
	a.mu.Unlock()
}

// loseTask removes a task without an update, as an agent does that loses its work directory: it does not know the task
// any longer.
func (a *agent) loseTask(task string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tasks, task)
}

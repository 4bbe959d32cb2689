package agent

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/internal/local/link"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/resource"
)

// nextMaster also records the executors with which an agent registers.
type nextMaster struct {
	*fakeMaster
	running []link.RunningExecutor
}

func (m *nextMaster) Register(info mesos.AgentInfo, total []mesos.Resource, running []link.RunningExecutor, a link.AgentLink) (mesos.AgentID, error) {
	m.running = running
	return m.fakeMaster.Register(info, total, running, a)
}

// An agent registers with another master, with a running task and one whose
// terminal status is not acknowledged.
func TestAgentJoinsAnotherMaster(t *testing.T) {
	r := newRig(t, false, nil)
	r.run(r.custom("stays"), newTask("t1", "sleep 1000", resource.NewScalar("cpus", 1)))
	r.master.awaitStates(t, "t1", "RUNNING")
	r.master.locked(func() { r.master.mute = true })
	r.run(r.custom("ends"), newTask("t2", "true"))
	r.master.awaitStates(t, "t2", "RUNNING")

	next := &nextMaster{fakeMaster: newFakeMaster()}
	if err := r.agent.Join(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	// The terminal status of t2 is sent after RUNNING is acknowledged.
	next.awaitStates(t, "t2", "RUNNING FINISHED")
	if next.info.GetID().GetValue() != "agent-1" {
		t.Errorf("joined as %v", next.info.ID)
	}
	got := map[string]string{}
	for _, run := range next.running {
		for _, task := range run.Tasks {
			got[run.Executor.ExecutorID.Value] = task.TaskID.Value
		}
		if run.Framework.GetID().GetValue() != "fw" {
			t.Errorf("executor %s of framework %v", run.Executor.ExecutorID.Value, run.Framework.ID)
		}
	}
	if len(got) != 2 || got["stays"] != "t1" || got["ends"] != "t2" {
		t.Errorf("joined with tasks %v", got)
	}
	if states := r.master.states("t2"); states != "RUNNING" {
		t.Errorf("the old master was told %s", states)
	}
	next.agent.ShutdownExecutor(mesos.FrameworkID{Value: "fw"}, mesos.ExecutorID{Value: "stays"})
	next.await(t, "the end of t1", func() bool {
		last := next.last("t1")
		return events.IsTerminal(last.GetState())
	})
}

package agent

import (
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"

	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/minimesos/resource"
	"mesos-gpu/internal/testing/faultproxy"
)

// An agent registers with another master, with a running task and one whose
// terminal status is not acknowledged.
func TestAgentJoinsAnotherMaster(t *testing.T) {
	r := newRig(t, false, nil)
	r.run(r.custom("stays"), newTask("t1", "sleep 1000", resource.NewScalar("cpus", 1)))
	r.master.awaitStates(t, "t1", "RUNNING")
	r.master.locked(func() { r.master.mute = true })
	r.run(r.custom("ends"), newTask("t2", "true"))
	r.master.awaitStates(t, "t2", "RUNNING")

	next := newFakeMaster()
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

// TestLateLaunchRuns checks a launch that arrives after the agent was lost and has
// registered again. The agent did not list its task then, and runs it.
func TestLateLaunchRuns(t *testing.T) {
	var network *faultproxy.AgentProxy
	r := newRig(t, false, func(c *AgentConfig) {
		network = faultproxy.NewAgentProxy(c.Master)
		c.Master = network
	})
	network.Cut(true, false)
	r.run(r.custom("late"), newTask("late", "block"))
	network.LoseAgent()
	if err := r.agent.Join(t.Context(), network); err != nil {
		t.Fatal(err)
	}
	if len(r.master.running) != 0 {
		t.Errorf("the agent registered with %v", r.master.running)
	}
	network.Heal(true, false)
	if got := r.master.awaitStates(t, "late", "RUNNING"); got.GetSource() != mesos.SOURCE_EXECUTOR {
		t.Errorf("got %v", got)
	}
	if got := r.get(calls.GetTasks()).GetTasks.LaunchedTasks; len(got) != 1 || got[0].TaskID.Value != "late" {
		t.Errorf("the agent lists %v", got)
	}
	r.master.agent.ShutdownExecutor(mesos.FrameworkID{Value: "fw"}, mesos.ExecutorID{Value: "late"})
	if got := r.master.awaitStates(t, "late", "RUNNING FAILED"); got.GetSource() != mesos.SOURCE_AGENT || len(got.UUID) == 0 {
		t.Errorf("got %v", got)
	}
}

// TestUnacknowledgedEndsAreListed checks that the agent registers again with the
// terminal states of tasks that are not acknowledged, and without completed ones.
func TestUnacknowledgedEndsAreListed(t *testing.T) {
	r := newRig(t, false, nil)
	r.run(r.custom("completed"), newTask("completed", "exit"))
	r.master.awaitStates(t, "completed", "FAILED")
	r.master.awaitExit(t, "completed")
	r.master.locked(func() { r.master.mute = true })
	r.run(r.custom("ends"), newTask("ends", "exit"))
	r.master.awaitStates(t, "ends", "FAILED")
	r.master.awaitExit(t, "ends")
	if err := r.agent.Join(t.Context(), r.master); err != nil {
		t.Fatal(err)
	}
	got := r.master.running
	if len(got) != 1 || !got[0].Ended || len(got[0].Tasks) != 1 || got[0].State(mesos.TaskID{Value: "ends"}) != mesos.TASK_FAILED {
		t.Errorf("the agent registered with %v", got)
	}
}

package checklist

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/gogo/protobuf/types"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/maintenance"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

func (w *testEnv) drainAgent(id mesos.AgentID) {
	w.t.Helper()
	w.callOperator(&operator.Call{Type: operator.Call_DRAIN_AGENT, DrainAgent: &operator.Call_DrainAgent{
		AgentID: id, MaxGracePeriod: &types.Duration{Seconds: 1},
	}})
}

func TestMesos36_DrainedAgentsGetNoNewTasks(t *testing.T) {
	w := newTestEnv(t, gpuAgent, otherGPUs)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1))
	before := in.awaitTask("train", job.Running)
	w.drainAgent(mesos.AgentID{Value: before.AgentID})
	killed := w.awaitEvent(1, scheduler.Event_UPDATE, func(e faultproxy.RecordedEvent) bool {
		return e.Update.Status.TaskID.Value == before.ID && e.Update.Status.GetState() == mesos.TASK_KILLED
	})
	if got := killed.Update.Status.GetReason(); got != mesos.REASON_AGENT_DRAINING {
		t.Errorf("killed because of %s", got)
	}
	// A drain does not count as a failure of the task.
	again := in.awaitTaskCondition("train", "running elsewhere", func(t job.Task) bool { return t.ID != before.ID && t.State == job.Running })
	if again.AgentID == before.AgentID || again.Failures != 0 {
		t.Errorf("runs again on %s with %d failures, was on %s", again.AgentID, again.Failures, before.AgentID)
	}
	w.runJob(in, "more", 1)
	for _, c := range w.listCalls(scheduler.Call_ACCEPT, func(c faultproxy.RecordedCall) bool { return c.At.After(killed.At) }) {
		for _, op := range c.Accept.Operations {
			for _, task := range op.GetLaunch().GetTaskInfos() {
				if task.AgentID.Value == before.AgentID {
					t.Errorf("task %s was launched on the drained agent", task.TaskID.Value)
				}
			}
		}
	}
}

func (w *testEnv) scheduleMaintenance(m machine, start time.Time, duration time.Duration) {
	w.t.Helper()
	w.callOperator(&operator.Call{Type: operator.Call_UPDATE_MAINTENANCE_SCHEDULE, UpdateMaintenanceSchedule: &operator.Call_UpdateMaintenanceSchedule{
		Schedule: maintenance.Schedule{Windows: []maintenance.Window{{
			MachineIDs: []mesos.MachineID{{Hostname: proto.String(m.ip), IP: proto.String(m.ip)}},
			Unavailability: mesos.Unavailability{
				Start: mesos.TimeInfo{Nanoseconds: start.UnixNano()}, Duration: &mesos.DurationInfo{Nanoseconds: duration.Nanoseconds()},
			},
		}}},
	}})
}

func TestMesos37_InverseOffersAreAnswered(t *testing.T) {
	w := newTestEnv(t, gpuAgent, otherGPUs)
	in := w.startScheduler(nil)
	in.submit(w.newSpec("train", 1)) // with an unknown duration
	used, free := gpuAgent, otherGPUs
	if in.awaitTask("train", job.Running).AgentID != w.agentID(gpuAgent).Value {
		used, free = free, used
	}
	w.scheduleMaintenance(used, time.Now().Add(time.Hour), time.Hour)
	inverse := w.awaitEvent(1, scheduler.Event_INVERSE_OFFERS, nil).InverseOffers.InverseOffers[0]
	w.awaitCondition("an answer to the inverse offer", func() bool {
		for _, c := range w.Calls() {
			for _, id := range append(c.GetAcceptInverseOffers().GetInverseOfferIDs(), c.GetDeclineInverseOffers().GetInverseOfferIDs()...) {
				if id == inverse.OfferID {
					return true
				}
			}
		}
		return false
	})
	w.finishTasks("train")
	in.awaitTask("train", job.Finished)
	// An agent with imminent maintenance gets no tasks.
	w.scheduleMaintenance(used, time.Now().Add(time.Second), time.Hour)
	for n := range 2 {
		name := fmt.Sprint("next-", n)
		in.submit(w.newSpec(name, 1))
		if got := in.awaitTask(name, job.Running).AgentID; got != w.agentID(free).Value {
			t.Errorf("%s runs on %s, which is about to go, want %s", name, got, w.agentID(free).Value)
		}
	}
}

// The API reports what an operator does to an agent.
func TestMesos46_OperatorAPIReportsAgentState(t *testing.T) {
	w := newTestEnv(t, gpuAgent, otherGPUs)
	w.drainAgent(w.agentID(gpuAgent))
	if info := w.listAgents()[gpuAgent.ip].DrainInfo; info == nil || info.State == mesos.DrainState_UNKNOWN {
		t.Fatalf("drain_info is %v", info)
	}
	in := w.startScheduler(nil)
	in.submit(w.newSpec("fills", 2), w.newSpec("waits", 2))
	in.awaitTask("fills", job.Running)
	w.awaitCondition("the master to be asked for its agents", func() bool {
		for _, c := range w.OperatorCalls() {
			if c.GetType() == operator.Call_GET_AGENTS || c.GetType() == operator.Call_SUBSCRIBE {
				return true
			}
		}
		return false
	})
	w.awaitProcessed(in, "settled")
	if waits := in.getJob("waits").WaitReason; !strings.Contains(waits, "drain") {
		t.Errorf("the job waits because %q: want the drained agent named", waits)
	}
}

package checklist

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/quota"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework"
	"mesos-gpu/internal/testing/faultproxy"
	"mesos-gpu/job"
)

// Mesos 1.11 introduced offer constraints; mesos-go has no field for them.
func TestMesos28_TinyRemaindersAreNotOffered(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	w.startScheduler(nil)
	info := w.awaitCall(1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo
	for _, role := range info.Roles {
		filters := info.OfferFilters[role]
		quantities := filters.GetMinAllocatableResources().GetQuantities()
		if len(quantities) == 0 {
			t.Errorf("role %s has no least offer: %v", role, info.OfferFilters)
		}
		for _, q := range quantities {
			if q.Quantities["cpus"].Value <= 0 || q.Quantities["mem"].Value <= 0 {
				t.Errorf("role %s takes offers of %v", role, q.Quantities)
			}
		}
	}
}

// The API accepts no fractional GPUs; the fault proxy halves the number in the call.
func TestMesos29_FractionalGPUsAreInvalid(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	w.InjectFault(-1, faultproxy.MatchType(scheduler.Call_ACCEPT), rewriteCall(func(c *scheduler.Call) {
		for _, task := range c.Accept.Operations[0].Launch.TaskInfos {
			for _, r := range task.Resources {
				if r.Name == "gpus" {
					r.Scalar.Value = 0.5
				}
			}
		}
	}))
	in := w.startScheduler(nil)
	s := w.newSpec("half", 1)
	s.Retries = 3
	in.submit(s)
	task := in.awaitTask("half", job.Refused)
	if !strings.Contains(task.Reason, "TASK_INVALID") || !strings.Contains(task.Message, "gpus") {
		t.Errorf("refused because of %q: %q", task.Reason, task.Message)
	}
	w.awaitProcessed(in, "settled")
	if n := len(w.listCalls(scheduler.Call_ACCEPT, isLaunchOf(task.ID))); n != 1 || in.getJob("half").Tasks[0].ID != task.ID {
		t.Errorf("the task was launched %d times, then as %s", n, in.getJob("half").Tasks[0].ID)
	}
}

func TestMesos30_GPUResourcesCapability(t *testing.T) {
	w := newTestEnv(t, gpuAgent, plainAgent)
	gpus := w.agentID(gpuAgent)
	from := func(id mesos.AgentID) func(faultproxy.RecordedEvent) bool {
		return func(e faultproxy.RecordedEvent) bool {
			return slices.ContainsFunc(e.GetOffers().GetOffers(), func(o mesos.Offer) bool { return o.AgentID == id })
		}
	}
	in := w.startScheduler(nil)
	if info := w.awaitCall(1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo; !hasCapability(info, mesos.FrameworkInfo_Capability_GPU_RESOURCES) {
		t.Errorf("capabilities %v", info.Capabilities)
	}
	in.submit(w.newSpec("wide", 1))
	w.awaitEvent(1, scheduler.Event_OFFERS, from(gpus))
	in.stop()

	// Without the capability, the GPU agent is not offered.
	w.InjectFault(-1, faultproxy.MatchType(scheduler.Call_SUBSCRIBE), rewriteCall(func(c *scheduler.Call) {
		info := c.Subscribe.FrameworkInfo
		info.Capabilities = slices.DeleteFunc(info.Capabilities, func(c mesos.FrameworkInfo_Capability) bool {
			return c.Type == mesos.FrameworkInfo_Capability_GPU_RESOURCES
		})
	}))
	blind := w.startScheduler(nil)
	blind.submit(w.newSpec("waits", 1))
	w.awaitProcessed(blind, "runs")
	for _, e := range w.Events() {
		if e.Stream == 2 && from(gpus)(e) {
			t.Error("an agent with GPUs was offered to a framework that is not GPU_RESOURCES")
		}
	}
}

func TestMesos31_TasksWithoutGPUsAvoidGPUAgents(t *testing.T) {
	w := newTestEnv(t, gpuAgent, plainAgent)
	plain := w.agentID(plainAgent).Value
	in := w.startScheduler(nil)
	for n := range 3 {
		in.submit(w.newSpec(fmt.Sprint("plain-", n), 0))
		if got := in.awaitTask(fmt.Sprint("plain-", n), job.Running).AgentID; got != plain {
			t.Errorf("a task without GPUs runs on %s, want %s", got, plain)
		}
	}
}

func (w *testEnv) setQuota(role string, gpus float64) {
	w.t.Helper()
	w.callOperator(&operator.Call{Type: operator.Call_UPDATE_QUOTA, UpdateQuota: &operator.Call_UpdateQuota{
		QuotaConfigs: []quota.QuotaConfig{{Role: role, Limits: map[string]mesos.Value_Scalar{"gpus": {Value: gpus}}}},
	}})
}

func TestMesos32_QuotaStarvationIsReported(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	w.setQuota("research", 0)
	in := w.startScheduler(func(c *framework.SchedulerConfig) { c.Roles = []string{"research"} })
	start := time.Now()
	in.submit(w.newSpec("train", 1))
	w.awaitCall(1, scheduler.Call_DECLINE, nil)
	w.awaitProcessed(in, "settled")
	if view := in.getJob("train"); view.State != job.Waiting || !strings.Contains(view.WaitReason, "GPU") && !strings.Contains(view.WaitReason, "free") {
		t.Errorf("the job is %s and waits because %q", view.State, view.WaitReason)
	}
	w.checkCallRate(start, scheduler.Call_DECLINE, scheduler.Call_REVIVE, scheduler.Call_SUPPRESS)
	w.setQuota("research", 2)
	in.submit(w.newSpec("next", 1)) // makes the scheduler revive offers, if it has not yet
	in.awaitTask("train", job.Running)
	in.awaitTask("next", job.Running)
}

// checkCallRate checks the rate of each type of call: at most two a second, plus a few at the
// start.
func (w *testEnv) checkCallRate(since time.Time, kinds ...scheduler.Call_Type) {
	w.t.Helper()
	allowed := 5 + int(2*time.Since(since).Seconds())
	for _, kind := range kinds {
		if n := len(w.listCalls(kind, nil)); n > allowed {
			w.t.Errorf("%d calls %s within %s, want %d at most", n, kind, time.Since(since), allowed)
		}
	}
}

func TestMesos33_CallRateIsLimitedAndOverloadIsRetried(t *testing.T) {
	w := newTestEnv(t, gpuAgent)
	in := w.startScheduler(nil)
	start := time.Now()
	in.submit(w.newSpec("train", 1))
	id := in.awaitTask("train", job.Running).ID
	for n := range 50 {
		in.submit(w.newSpec(fmt.Sprint("large-", n), 5)) // larger than any agent
	}
	w.checkCallRate(start, scheduler.Call_REVIVE, scheduler.Call_SUPPRESS, scheduler.Call_DECLINE, scheduler.Call_RECONCILE)
	w.InjectEvents(failureEvent("Message mesos.scheduler.Call dropped: capacity(100) exceeded"))
	w.awaitCall(2, scheduler.Call_SUBSCRIBE, nil)
	// The same condition, reported as the HTTP answer to a call.
	w.InjectFault(1, isNotSubscribe, faultproxy.AnswerOverloaded())
	w.finishTasks("train")
	if got := in.awaitTask("train", job.Finished).ID; got != id {
		t.Errorf("task %s became %s", id, got)
	}
	w.runJob(in, "more", 1)
}

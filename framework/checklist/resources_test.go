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
	"mesos-gpu/internal/faultproxy"
	"mesos-gpu/job"
)

// Mesos 1.11 introduced offer constraints; mesos-go has no field for them.
func TestMesos28_TinyRemaindersAreNotOffered(t *testing.T) {
	w := newWorld(t, gpuAgent)
	w.start(nil)
	info := w.call(1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo
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
	w := newWorld(t, gpuAgent)
	w.InjectFault(-1, faultproxy.MatchType(scheduler.Call_ACCEPT), rewriteCall(func(c *scheduler.Call) {
		for _, task := range c.Accept.Operations[0].Launch.TaskInfos {
			for _, r := range task.Resources {
				if r.Name == "gpus" {
					r.Scalar.Value = 0.5
				}
			}
		}
	}))
	in := w.start(nil)
	s := w.spec("half", 1)
	s.Retries = 3
	in.submit(s)
	task := in.task("half", job.Refused)
	if !strings.Contains(task.Reason, "TASK_INVALID") || !strings.Contains(task.Message, "gpus") {
		t.Errorf("refused because of %q: %q", task.Reason, task.Message)
	}
	w.settled(in, "settled")
	if n := len(w.these(scheduler.Call_ACCEPT, launches(task.ID))); n != 1 || in.job("half").Tasks[0].ID != task.ID {
		t.Errorf("the task was launched %d times, then as %s", n, in.job("half").Tasks[0].ID)
	}
}

func TestMesos30_GPUResourcesCapability(t *testing.T) {
	w := newWorld(t, gpuAgent, plainAgent)
	gpus := w.agentID(gpuAgent)
	from := func(id mesos.AgentID) func(faultproxy.RecordedEvent) bool {
		return func(e faultproxy.RecordedEvent) bool {
			return slices.ContainsFunc(e.GetOffers().GetOffers(), func(o mesos.Offer) bool { return o.AgentID == id })
		}
	}
	in := w.start(nil)
	if info := w.call(1, scheduler.Call_SUBSCRIBE, nil).Subscribe.FrameworkInfo; !hasCapability(info, mesos.FrameworkInfo_Capability_GPU_RESOURCES) {
		t.Errorf("capabilities %v", info.Capabilities)
	}
	in.submit(w.spec("wide", 1))
	w.event(1, scheduler.Event_OFFERS, from(gpus))
	in.end()

	// Without the capability, the GPU agent is not offered.
	w.InjectFault(-1, faultproxy.MatchType(scheduler.Call_SUBSCRIBE), rewriteCall(func(c *scheduler.Call) {
		info := c.Subscribe.FrameworkInfo
		info.Capabilities = slices.DeleteFunc(info.Capabilities, func(c mesos.FrameworkInfo_Capability) bool {
			return c.Type == mesos.FrameworkInfo_Capability_GPU_RESOURCES
		})
	}))
	blind := w.start(nil)
	blind.submit(w.spec("waits", 1))
	w.settled(blind, "runs")
	for _, e := range w.Events() {
		if e.Stream == 2 && from(gpus)(e) {
			t.Error("an agent with GPUs was offered to a framework that is not GPU_RESOURCES")
		}
	}
}

func TestMesos31_TasksWithoutGPUsAvoidGPUAgents(t *testing.T) {
	w := newWorld(t, gpuAgent, plainAgent)
	plain := w.agentID(plainAgent).Value
	in := w.start(nil)
	for n := range 3 {
		in.submit(w.spec(fmt.Sprint("plain-", n), 0))
		if got := in.task(fmt.Sprint("plain-", n), job.Running).AgentID; got != plain {
			t.Errorf("a task without GPUs runs on %s, want %s", got, plain)
		}
	}
}

func (w *world) limit(role string, gpus float64) {
	w.t.Helper()
	w.operate(&operator.Call{Type: operator.Call_UPDATE_QUOTA, UpdateQuota: &operator.Call_UpdateQuota{
		QuotaConfigs: []quota.QuotaConfig{{Role: role, Limits: map[string]mesos.Value_Scalar{"gpus": {Value: gpus}}}},
	}})
}

func TestMesos32_QuotaStarvationIsReported(t *testing.T) {
	w := newWorld(t, gpuAgent)
	w.limit("research", 0)
	in := w.start(func(c *framework.SchedulerConfig) { c.Roles = []string{"research"} })
	start := time.Now()
	in.submit(w.spec("train", 1))
	w.call(1, scheduler.Call_DECLINE, nil)
	w.settled(in, "settled")
	if view := in.job("train"); view.State != job.Waiting || !strings.Contains(view.WaitReason, "GPU") && !strings.Contains(view.WaitReason, "free") {
		t.Errorf("the job is %s and waits because %q", view.State, view.WaitReason)
	}
	w.wantFew(start, scheduler.Call_DECLINE, scheduler.Call_REVIVE, scheduler.Call_SUPPRESS)
	w.limit("research", 2)
	in.submit(w.spec("next", 1)) // makes the scheduler revive offers, if it has not yet
	in.task("train", job.Running)
	in.task("next", job.Running)
}

// wantFew checks the rate of each type of call: at most two a second, plus a few at the
// start.
func (w *world) wantFew(since time.Time, kinds ...scheduler.Call_Type) {
	w.t.Helper()
	allowed := 5 + int(2*time.Since(since).Seconds())
	for _, kind := range kinds {
		if n := len(w.these(kind, nil)); n > allowed {
			w.t.Errorf("%d calls %s within %s, want %d at most", n, kind, time.Since(since), allowed)
		}
	}
}

func TestMesos33_CallRateIsLimitedAndOverloadIsRetried(t *testing.T) {
	w := newWorld(t, gpuAgent)
	in := w.start(nil)
	start := time.Now()
	in.submit(w.spec("train", 1))
	id := in.task("train", job.Running).ID
	for n := range 50 {
		in.submit(w.spec(fmt.Sprint("large-", n), 5)) // larger than any agent
	}
	w.wantFew(start, scheduler.Call_REVIVE, scheduler.Call_SUPPRESS, scheduler.Call_DECLINE, scheduler.Call_RECONCILE)
	w.InjectEvents(failureEvent("Message mesos.scheduler.Call dropped: capacity(100) exceeded"))
	w.call(2, scheduler.Call_SUBSCRIBE, nil)
	// The same condition, reported as the HTTP answer to a call.
	w.InjectFault(1, other, faultproxy.AnswerOverloaded())
	w.finish("train")
	if got := in.task("train", job.Finished).ID; got != id {
		t.Errorf("task %s became %s", id, got)
	}
	w.run(in, "more", 1)
}

// Package advertisetest tests with any Mesos what changes of GPUs mean for a
// framework. Its framework runs tasks on named devices while these leave the
// offers and return. It checks the offers and that the tasks keep running. The
// caller chooses the master and agent.
package advertisetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/extras/scheduler/callrules"
	"github.com/mesos/mesos-go/api/v1/lib/extras/scheduler/controller"
	"github.com/mesos/mesos-go/api/v1/lib/extras/scheduler/eventrules"
	"github.com/mesos/mesos-go/api/v1/lib/extras/store"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpsched"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/gpu"
)

// waitTimeout bounds every wait. Nothing takes as long in a successful test.
const waitTimeout = 2 * time.Minute

// TestFramework is a subscribed framework.
type TestFramework struct {
	t      testing.TB
	caller calls.Caller
	offers chan mesos.Offer

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced at each change
	states    map[string]mesos.TaskStatus
	where     map[string]string
	rescinded map[string]bool // ids of rescinded offers
}

// Subscribe subscribes a framework with the roles to a master until the test
// ends.
func Subscribe(t testing.TB, master string, roles ...string) *TestFramework {
	t.Helper()
	f := &TestFramework{
		t: t, offers: make(chan mesos.Offer, 1000), changed: make(chan struct{}),
		states: map[string]mesos.TaskStatus{}, where: map[string]string{}, rescinded: map[string]bool{},
	}
	id := store.NewInMemorySingleton()
	f.caller = callrules.New(callrules.WithFrameworkID(store.GetIgnoreErrors(id))).Caller(httpsched.NewCaller(httpcli.New(
		httpcli.Endpoint(master+"/api/v1/scheduler"), httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeProtobuf]))))
	rules := eventrules.Rules{controller.LiftErrors().DropOnError(), controller.TrackSubscription(id, time.Minute),
		controller.AckStatusUpdates(f.caller).DropOnError(), f.handleEvent}
	keep, failover := true, float64(3600)
	info := &mesos.FrameworkInfo{
		User: "root", Name: "live", Roles: roles, Checkpoint: &keep, FailoverTimeout: &failover,
		Capabilities: []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_GPU_RESOURCES}, {Type: mesos.FrameworkInfo_Capability_MULTI_ROLE}},
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = controller.Run(ctx, info, f.caller, controller.WithEventHandler(rules), controller.WithFrameworkID(store.GetIgnoreErrors(id)))
	}()
	t.Cleanup(func() { stop(); <-over })
	return f
}

func (f *TestFramework) handleEvent(ctx context.Context, e *scheduler.Event, err error, chain eventrules.Chain) (context.Context, *scheduler.Event, error) {
	switch e.GetType() {
	case scheduler.Event_OFFERS:
		for _, o := range e.GetOffers().Offers {
			f.offers <- o
		}
	case scheduler.Event_RESCIND:
		f.mu.Lock()
		f.rescinded[e.GetRescind().OfferID.Value] = true
		f.mu.Unlock()
	case scheduler.Event_UPDATE:
		f.mu.Lock()
		s := e.GetUpdate().Status
		f.states[s.TaskID.Value] = s
		close(f.changed)
		f.changed = make(chan struct{})
		f.mu.Unlock()
	}
	return chain(ctx, e, err)
}

// offeredGPUs are the GPUs of an offer.
type offeredGPUs struct {
	GPUs int
	IDs  []string
}

func gpusIn(o mesos.Offer) offeredGPUs {
	var g offeredGPUs
	for _, r := range o.Resources {
		switch r.Name {
		case "gpus":
			g.GPUs += int(r.GetScalar().GetValue())
		case "gpu_ids":
			g.IDs = append(g.IDs, r.GetSet().GetItem()...)
		}
	}
	slices.Sort(g.IDs)
	return g
}

// AwaitOffer declines offers until one has exactly that number of GPUs and
// those devices, and returns that offer.
func (f *TestFramework) AwaitOffer(what string, gpus int, ids ...string) mesos.Offer {
	f.t.Helper()
	slices.Sort(ids)
	return f.awaitMatching(what, fmt.Sprintf("%d GPUs and %v", gpus, ids), func(o mesos.Offer) (bool, string) {
		g := gpusIn(o)
		return g.GPUs == gpus && slices.Equal(g.IDs, ids), fmt.Sprint(g)
	})
}

// awaitMatching declines offers until good accepts one, and returns that
// offer. wanted and good's has are for error messages.
func (f *TestFramework) awaitMatching(what, wanted string, good func(o mesos.Offer) (ok bool, has string)) mesos.Offer {
	f.t.Helper()
	deadline, last := time.After(waitTimeout), "none"
	for {
		select {
		case o := <-f.offers:
			f.mu.Lock()
			void := f.rescinded[o.ID.Value]
			f.mu.Unlock()
			if void {
				continue
			}
			if slices.ContainsFunc(o.Resources, func(r mesos.Resource) bool { return r.Name == gpu.WithheldResource }) {
				f.t.Errorf("%s: offered is what is withheld: %v", what, o.Resources)
			}
			ok, has := good(o)
			if ok {
				return o
			}
			last = has
			f.sendCall(calls.Decline(o.ID).With(calls.RefuseSeconds(0)))
		case <-deadline:
			f.t.Fatalf("%s: no offer of %s within %s; the last was %s", what, wanted, waitTimeout, last)
		}
	}
}

// ExpectOffer waits for such an offer and declines it.
func (f *TestFramework) ExpectOffer(what string, gpus int, ids ...string) {
	f.t.Helper()
	f.sendCall(calls.Decline(f.AwaitOffer(what, gpus, ids...).ID).With(calls.RefuseSeconds(0)))
}

func (f *TestFramework) sendCall(c *scheduler.Call) {
	f.t.Helper()
	if err := calls.CallNoData(context.Background(), f.caller, c); err != nil {
		f.t.Fatal(err)
	}
}

// LaunchTask starts a sleeping task on devices of the offer and waits until it
// runs.
func (f *TestFramework) LaunchTask(o mesos.Offer, name string, ids ...string) {
	f.t.Helper()
	f.launchDevices(o, name, len(ids), ids)
}

// LaunchByCount is LaunchTask for a framework that requests GPUs by number.
func (f *TestFramework) LaunchByCount(o mesos.Offer, name string, gpus int) {
	f.t.Helper()
	f.launchDevices(o, name, gpus, nil)
}

// SuppressOffers suppresses offers.
func (f *TestFramework) SuppressOffers() {
	f.t.Helper()
	f.sendCall(calls.Suppress())
}

func (f *TestFramework) launchDevices(o mesos.Offer, name string, gpus int, ids []string) {
	f.t.Helper()
	f.launchTask(o, name, "exec sleep 1000", takeResources(o.Resources, gpus, ids))
	f.AwaitState(name, mesos.TASK_RUNNING)
}

func (f *TestFramework) launchTask(o mesos.Offer, name, command string, resources []mesos.Resource) {
	f.t.Helper()
	shell := true
	task := mesos.TaskInfo{
		Name: name, TaskID: mesos.TaskID{Value: name}, AgentID: o.AgentID, Resources: resources,
		Command: &mesos.CommandInfo{Shell: &shell, Value: &command},
	}
	f.mu.Lock()
	f.where[name] = o.AgentID.Value
	f.mu.Unlock()
	f.sendCall(calls.Accept(calls.OfferOperations{calls.OpLaunch(task)}.WithOffers(o.ID)).With(calls.RefuseSeconds(0)))
}

// takeResources takes a small part of each resource, the number of GPUs, and
// the devices: named ones from the provider, others from the agent. The memory
// is enough for an executor with the race detector.
func takeResources(offered []mesos.Resource, gpus int, ids []string) []mesos.Resource {
	var taken []mesos.Resource
	scalars := map[string]float64{"cpus": 0.1, "mem": 256, "gpus": float64(gpus)}
	for _, r := range offered {
		switch {
		case r.Name == "gpus" && (r.ProviderID != nil) != (len(ids) > 0):
			continue
		case scalars[r.Name] > 0:
			part := min(scalars[r.Name], r.GetScalar().GetValue())
			scalars[r.Name] -= part
			r.Scalar = &mesos.Value_Scalar{Value: part}
		case r.Name == "gpu_ids" && len(ids) > 0:
			r.Set = &mesos.Value_Set{Item: ids}
		default:
			continue
		}
		taken = append(taken, r)
	}
	return taken
}

// KillTask kills a task and waits for its end.
func (f *TestFramework) KillTask(name string) {
	f.t.Helper()
	f.sendCall(calls.Kill(name, f.where[name]))
	f.AwaitState(name, mesos.TASK_KILLED)
}

// AwaitState waits until the task's last status has that state.
func (f *TestFramework) AwaitState(name string, want mesos.TaskState) {
	f.t.Helper()
	deadline := time.After(waitTimeout)
	for {
		f.mu.Lock()
		s, changed := f.states[name], f.changed
		f.mu.Unlock()
		if s.State != nil && s.GetState() == want {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			f.t.Fatalf("task %s is %s (%s: %s), want %s", name, s.GetState(), s.GetReason(), s.GetMessage(), want)
		}
	}
}

// ExpectRunning checks that the task's last status is TASK_RUNNING.
func (f *TestFramework) ExpectRunning(when, name string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.states[name]; s.GetState() != mesos.TASK_RUNNING {
		f.t.Errorf("%s: task %s is %s (%s: %s), want it to run on", when, name, s.GetState(), s.GetReason(), s.GetMessage())
	}
}

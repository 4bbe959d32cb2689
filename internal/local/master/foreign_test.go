package master

import (
	"context"
	"errors"
	"net/http/httptest"
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
)

// foreign is a scheduler that uses only mesos-go.
type foreign struct {
	caller  calls.Caller
	store   store.Singleton
	seen    chan mesos.TaskState
	fail    func(error)
	answers int
}

func (s *foreign) handle(ctx context.Context, e *scheduler.Event, err error, chain eventrules.Chain) (context.Context, *scheduler.Event, error) {
	switch e.GetType() {
	case scheduler.Event_OFFERS:
		s.answer(ctx, e.GetOffers().Offers)
	case scheduler.Event_UPDATE:
		s.seen <- e.GetUpdate().Status.GetState()
	}
	return chain(ctx, e, err)
}

// answer declines the first offer, launches one task with the next one, and then
// suppresses offers.
func (s *foreign) answer(ctx context.Context, offers []mesos.Offer) {
	o := offers[0]
	s.answers++
	if s.answers == 1 {
		s.call(ctx, calls.Decline(o.ID).With(calls.RefuseSeconds(time.Hour)))
		s.call(ctx, calls.Revive())
		return
	}
	task := mesos.TaskInfo{
		Name: "job", TaskID: mesos.TaskID{Value: "job.1"}, AgentID: o.AgentID,
		Command: &mesos.CommandInfo{}, Resources: res("cpus:1;mem:64;gpus:1;gpu_ids:{B}"),
	}
	s.call(ctx, calls.Suppress())
	s.call(ctx, calls.Accept(calls.OfferOperations{calls.OpLaunch(task)}.WithOffers(o.ID)).With(calls.RefuseSeconds(time.Hour)))
}

func (s *foreign) call(ctx context.Context, call *scheduler.Call) {
	if err := calls.CallNoData(ctx, s.caller, call); err != nil {
		s.fail(err)
	}
}

func TestForeignScheduler(t *testing.T) {
	for name, codec := range map[string]httpcli.Opt{
		"protobuf": httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeProtobuf]),
		"json":     httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeJSON]),
	} {
		t.Run(name, func(t *testing.T) {
			m := New(MasterConfig{AllocationInterval: 10 * time.Millisecond})
			server := httptest.NewServer(m.Handler())
			defer server.Close()
			ctx, cancel := contextOf(t)
			done := make(chan error)
			go func() { done <- m.Run(ctx) }()
			a := register(t, m, gpuAgent)

			s := &foreign{store: store.NewInMemorySingleton(), seen: make(chan mesos.TaskState, 10), fail: func(err error) { t.Error(err) }}
			id := store.GetIgnoreErrors(s.store)
			s.caller = callrules.New(callrules.WithFrameworkID(id)).Caller(
				httpsched.NewCaller(httpcli.New(httpcli.Endpoint(server.URL+"/api/v1/scheduler"), codec)))
			rules := eventrules.Rules{
				controller.LiftErrors().DropOnError(),
				controller.TrackSubscription(s.store, time.Minute),
				controller.AckStatusUpdates(s.caller).DropOnError(),
				s.handle,
			}
			schedule, stop := contextOf(t)
			ended := make(chan error, 1)
			go func() {
				ended <- controller.Run(schedule, info(), s.caller, controller.WithEventHandler(rules), controller.WithFrameworkID(id))
			}()

			r := a.nextRun(t)
			for _, state := range []mesos.TaskState{mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_FINISHED} {
				a.status(m, r.framework.ID, "job.1", state)
				if got := <-s.seen; got != state {
					t.Errorf("the scheduler saw %v, want %v", got, state)
				}
				a.wants(t, "acknowledge job.1 16")
			}
			stillSuppressed := func(u *scheduler.Call_UpdateFramework) { u.SuppressedRoles = []string{"*"} }
			if err := calls.CallNoData(ctx, s.caller, calls.UpdateFramework(r.framework, stillSuppressed)); err != nil {
				t.Errorf("update framework: %v", err)
			}
			if err := calls.CallNoData(ctx, s.caller, &scheduler.Call{Type: scheduler.Call_TEARDOWN}); err != nil {
				t.Errorf("teardown: %v", err)
			}
			a.wants(t, "shutdown framework")
			stop()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) && schedule.Err() == nil {
				t.Error(err)
			}
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

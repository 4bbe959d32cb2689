package local

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	execcalls "github.com/mesos/mesos-go/api/v1/lib/executor/calls"
	"github.com/mesos/mesos-go/api/v1/lib/executor/config"
	"github.com/mesos/mesos-go/api/v1/lib/extras/scheduler/callrules"
	"github.com/mesos/mesos-go/api/v1/lib/extras/scheduler/controller"
	"github.com/mesos/mesos-go/api/v1/lib/extras/scheduler/eventrules"
	"github.com/mesos/mesos-go/api/v1/lib/extras/store"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpexec"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpsched"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/reexec"
	"mesos-gpu/isolator/simulated"
)

const foreignCommand = "foreign-executor"

// TestMain makes the test binary the first process of containers, and an
// executor that is not this project's.
func TestMain(m *testing.M) {
	reexec.Main(m, reexec.CommandTable{foreignCommand: foreignExecutor, "executor": reexec.ExecutorCommand(nil)})
}

// foreignExecutor runs one task's data as a shell script. It uses only mesos-go.
func foreignExecutor([]string) error {
	cfg, err := config.FromEnv()
	if err != nil {
		return err
	}
	client := httpcli.New(
		httpcli.Endpoint("http://"+cfg.AgentEndpoint+"/api/v1/executor"), httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeProtobuf]),
		httpcli.Do(httpcli.With(httpcli.Timeout(10*time.Second))),
	)
	options := executor.CallOptions{execcalls.Framework(cfg.FrameworkID), execcalls.Executor(cfg.ExecutorID)}
	sender := execcalls.SenderWith(httpexec.NewSender(client.Send), options...)
	subscriber := execcalls.SenderWith(httpexec.NewSender(client.Send, httpcli.Close(true)), options...)
	ctx := context.Background()
	resp, err := subscriber.Send(ctx, execcalls.NonStreaming(execcalls.Subscribe(nil, nil)))
	if err != nil {
		return err
	}
	defer resp.Close()
	var final []byte
	for {
		var ev executor.Event
		if err := resp.Decode(&ev); err != nil {
			return err
		}
		switch ev.Type {
		case executor.Event_LAUNCH:
			if final, err = runTask(ctx, sender, ev.Launch.Task); err != nil {
				return err
			}
		case executor.Event_ACKNOWLEDGED:
			if string(ev.Acknowledged.UUID) == string(final) {
				return nil
			}
		case executor.Event_SHUTDOWN:
			return nil
		}
	}
}

func runTask(ctx context.Context, sender execcalls.Sender, t mesos.TaskInfo) (final []byte, err error) {
	update := func(state mesos.TaskState, message string) ([]byte, error) {
		id := uuid.New()
		resp, err := sender.Send(ctx, execcalls.NonStreaming(execcalls.Update(mesos.TaskStatus{
			TaskID: t.TaskID, State: &state, Source: mesos.SOURCE_EXECUTOR.Enum(), UUID: id[:], Message: &message,
		})))
		if resp != nil {
			resp.Close()
		}
		return id[:], err
	}
	if _, err := update(mesos.TASK_RUNNING, ""); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "sh", "-c", string(t.Data)).CombinedOutput()
	if err != nil {
		return update(mesos.TASK_FAILED, string(out)+err.Error())
	}
	return update(mesos.TASK_FINISHED, string(out))
}

// foreignScheduler launches one task with one of the offered GPUs.
type foreignScheduler struct {
	caller   calls.Caller
	binary   string
	statuses chan mesos.TaskStatus
	errs     chan error
	launched bool
}

func (s *foreignScheduler) handle(ctx context.Context, e *scheduler.Event, err error, chain eventrules.Chain) (context.Context, *scheduler.Event, error) {
	switch e.GetType() {
	case scheduler.Event_OFFERS:
		for _, o := range e.GetOffers().Offers {
			if err := calls.CallNoData(ctx, s.caller, s.answer(o)); err != nil {
				s.errs <- err
			}
		}
	case scheduler.Event_UPDATE:
		s.statuses <- e.GetUpdate().Status
	}
	return chain(ctx, e, err)
}

func (s *foreignScheduler) answer(o mesos.Offer) *scheduler.Call {
	taken := take(o.Resources)
	if s.launched || taken == nil {
		return calls.Decline(o.ID).With(calls.RefuseSeconds(time.Millisecond))
	}
	s.launched = true
	shell := false
	task := mesos.TaskInfo{
		Name: "foreign", TaskID: mesos.TaskID{Value: "foreign.1"}, AgentID: o.AgentID, Resources: taken,
		Executor: &mesos.ExecutorInfo{
			Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: "foreign"}, FrameworkID: &o.FrameworkID,
			Command: &mesos.CommandInfo{Shell: &shell, Value: &s.binary, Arguments: []string{s.binary, foreignCommand}},
		},
		Data: []byte(`for n in /dev/nvidia[0-9]*; do e=$( { : <$n; } 2>&1 ) || true; echo "${e##*: }"; done`),
	}
	return calls.Accept(calls.OfferOperations{calls.OpLaunch(task)}.WithOffers(o.ID))
}

// take returns a CPU and the first GPU of an offer, or nil if it has none.
func take(offered []mesos.Resource) []mesos.Resource {
	var taken []mesos.Resource
	named := false
	for _, r := range offered {
		switch r.GetName() {
		case "cpus", "gpus":
			r.Scalar = &mesos.Value_Scalar{Value: 1}
		case "gpu_ids":
			r.Set = &mesos.Value_Set{Item: r.Set.Item[:1]}
			named = true
		case "mem":
			r.Scalar = &mesos.Value_Scalar{Value: 256}
		default:
			continue
		}
		taken = append(taken, r)
	}
	if !named {
		return nil
	}
	return taken
}

// A scheduler and an executor of another project, written with mesos-go, share
// the cluster with our framework.
func TestForeignFramework(t *testing.T) {
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, err := simulated.NewHost("2xV100", "foreign")
	if err != nil {
		t.Fatal(err)
	}
	at := startCluster(t, ClusterConfig{Hosts: []gpu.Host{host}})

	ctx, cancel := context.WithCancel(t.Context())
	s := &foreignScheduler{binary: binary, statuses: make(chan mesos.TaskStatus, 10), errs: make(chan error, 10)}
	id := store.NewInMemorySingleton()
	s.caller = callrules.New(callrules.WithFrameworkID(store.GetIgnoreErrors(id))).Caller(httpsched.NewCaller(httpcli.New(
		httpcli.Endpoint(at.Master+"/api/v1/scheduler"), httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeProtobuf]))))
	rules := eventrules.Rules{controller.LiftErrors().DropOnError(), controller.TrackSubscription(id, time.Minute),
		controller.AckStatusUpdates(s.caller).DropOnError(), s.handle}
	info := &mesos.FrameworkInfo{
		User:         "root",
		Name:         "foreign",
		Capabilities: []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_GPU_RESOURCES}},
	}
	over := make(chan error, 1)
	go func() {
		over <- controller.Run(ctx, info, s.caller, controller.WithEventHandler(rules), controller.WithFrameworkID(store.GetIgnoreErrors(id)))
	}()

	for _, want := range []mesos.TaskState{mesos.TASK_RUNNING, mesos.TASK_FINISHED} {
		select {
		case got := <-s.statuses:
			if got.GetState() != want {
				t.Fatalf("got %s: %s, want %s", got.GetState(), got.GetMessage(), want)
			}
			if want == mesos.TASK_FINISHED && os.Geteuid() == 0 {
				message := got.GetMessage()
				if strings.Count(message, "No such device") != 1 || strings.Count(message, "not permitted") != 1 {
					t.Errorf("of two GPUs the task could open:\n%s", message)
				}
			}
		case err := <-s.errs:
			t.Fatal(err)
		case err := <-over:
			t.Fatalf("the foreign scheduler ended: %v", err)
		}
	}
	cancel()
	<-over
}

//go:build mesos

package starts

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpsched"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// BenchmarkMesosStart starts tasks on an agent of Apache Mesos: Docker containers through our
// executor and through Mesos's docker executor, then unified containers and plain processes
// through our executor and through Mesos's command executor. The time is measured from ACCEPT
// to the update TASK_RUNNING at the scheduler. The benchmark fails if our executor takes more
// than half the time of Mesos's docker executor.
func BenchmarkMesosStart(b *testing.B) {
	docker := testneeds.RequireDockerEngine(b)
	image := testimage.LoadImage(b, docker, testimage.BusyboxArchive(b, "mesos-gpu-starts-mesos:latest", nil, nil))
	b.Cleanup(func() { removeContainersOfImage(b, docker, image) })
	program, images := buildProgram(b), b.TempDir()
	testimage.SaveImage(b, docker, image, images)
	master := apachemesos.StartMaster(b, "--allocation_interval=20ms")
	agent := apachemesos.AgentProcess{
		Master: master.Addr, IP: "127.0.0.1", Containerizers: "docker,mesos",
		ExecutorEnv: map[string]string{"MESOS_GPU_VOLUMES": b.TempDir() + "/volumes"},
		Flags: []string{
			"--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime",
			"--resources=cpus:8;mem:4096;disk:1024", "--image_providers=docker", "--docker_registry=" + images,
		},
	}.Start(b)
	agent.AwaitReady(b)
	f := subscribe(b, master.Addr)

	shell := true
	command := &mesos.CommandInfo{Shell: &shell, Value: new(string)}
	*command.Value = "exec " + strings.Join(sleepCommand, " ")
	of := func(container *mesos.ContainerInfo, ourExecutor bool) func(id string) mesos.TaskInfo {
		return func(id string) mesos.TaskInfo {
			task, executor := newSleepTask(b, program, id, container)
			if ourExecutor {
				task.Executor = &executor
			} else {
				task.Data, task.Command = nil, command
			}
			return task
		}
	}
	run := func(name, mine, theirs string, container *mesos.ContainerInfo, most float64) {
		b.Run(name, func(b *testing.B) {
			mine, theirs := f.newLauncher(mine, of(container, true)), f.newLauncher(theirs, of(container, false))
			for range b.N {
				launchSerially(b, 20, mine, theirs)
			}
			reportComparison(b, "on Apache Mesos, "+name, &mine.startTimes, &theirs.startTimes)
			share := ratioAtPercentile(&mine.startTimes, &theirs.startTimes, 50)
			b.ReportMetric(share, "of-mesos-p50")
			if most > 0 && share > most {
				b.Errorf("our executor takes %.2f of what Mesos's does, want at most %.2f", share, most)
			}
		})
	}
	run("docker", "mesos-gpu executor", "Mesos's docker executor", dockerContainer(image), 0.5)
	run("unified", "mesos-gpu executor, nested", "Mesos's command executor", unifiedContainer(image), 0)
	run("process", "mesos-gpu executor, nested", "Mesos's command executor", nil, 0)
}

// removeContainersOfImage removes the containers of an image. Mesos's docker containerizer
// keeps them for hours after they have ended.
func removeContainersOfImage(b *testing.B, docker *client.Client, image string) {
	list, err := docker.ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("ancestor", image))})
	if err != nil {
		b.Error(err)
	}
	for _, c := range list {
		removeContainer(b, docker, c.ID)
	}
}

// schedulerClient is a scheduler that starts one task at a time.
type schedulerClient struct {
	b      *testing.B
	caller calls.Caller
	id     *mesos.FrameworkID
	events chan *scheduler.Event
	offers []mesos.Offer
}

func subscribe(b *testing.B, master string) *schedulerClient {
	b.Helper()
	f := &schedulerClient{b: b, events: make(chan *scheduler.Event, 100)}
	f.caller = httpsched.NewCaller(httpcli.New(httpcli.Endpoint("http://"+master+"/api/v1/scheduler"), httpcli.Codec(httpcli.DefaultCodec)))
	ctx, stop := context.WithCancel(context.Background())
	info := frameworkInfo
	info.ID, info.Roles = nil, []string{"*"}
	info.Capabilities = []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE}}
	stream, err := f.caller.Call(ctx, calls.Subscribe(&info))
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		defer close(f.events)
		for {
			e := &scheduler.Event{}
			if err := stream.Decode(e); err != nil {
				return
			}
			f.events <- e
		}
	}()
	b.Cleanup(func() {
		stop()
		stream.Close()
		for range f.events { // drain until the reading goroutine ends
		}
	})
	f.awaitEvent(func(e *scheduler.Event) bool { return e.GetType() == scheduler.Event_SUBSCRIBED })
	return f
}

// awaitEvent receives events, and acknowledges status updates, until one matches.
func (f *schedulerClient) awaitEvent(matches func(*scheduler.Event) bool) {
	f.b.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case e, ok := <-f.events:
			if !ok {
				f.b.Fatal("the subscription ended")
			}
			f.recordEvent(e)
			if matches(e) {
				return
			}
		case <-late:
			f.b.Fatal("waited a minute for an event")
		}
	}
}

func (f *schedulerClient) recordEvent(e *scheduler.Event) {
	switch e.GetType() {
	case scheduler.Event_SUBSCRIBED:
		f.id = e.Subscribed.FrameworkID
	case scheduler.Event_OFFERS:
		f.offers = append(f.offers, e.Offers.Offers...)
	case scheduler.Event_RESCIND:
		f.offers = slices.DeleteFunc(f.offers, func(o mesos.Offer) bool { return o.ID == e.Rescind.OfferID })
	case scheduler.Event_UPDATE:
		if s := e.Update.Status; len(s.UUID) > 0 {
			f.sendCall(calls.Acknowledge(s.AgentID.Value, s.TaskID.Value, s.UUID))
		}
	}
}

func (f *schedulerClient) sendCall(c *scheduler.Call) {
	f.b.Helper()
	c.FrameworkID = f.id
	if err := calls.CallNoData(context.Background(), f.caller, c); err != nil {
		f.b.Fatal(err)
	}
}

// newLauncher returns a launcher that accepts an offer for each task. The time that the ACCEPT
// call takes counts.
func (f *schedulerClient) newLauncher(name string, task func(id string) mesos.TaskInfo) *launcher {
	return &launcher{startTimes{name: name}, func(b *testing.B, id string) (time.Duration, func()) {
		f.b = b
		offer := f.takeOffer()
		info := task(id)
		info.AgentID = offer.AgentID
		setAllocation(info.Resources, offer)
		if info.Executor != nil {
			info.Executor.FrameworkID = f.id
			setAllocation(info.Executor.Resources, offer)
		}
		accept := calls.Accept(calls.OfferOperations{calls.OpLaunch(info)}.WithOffers(offer.ID)).With(calls.RefuseSeconds(0))
		began := time.Now()
		f.sendCall(accept)
		f.awaitTaskState(id, mesos.TASK_RUNNING)
		return time.Since(began), func() {
			kill := calls.Kill(id, offer.AgentID.Value)
			kill.Kill.KillPolicy = &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{}}
			f.sendCall(kill)
			f.awaitEvent(func(e *scheduler.Event) bool {
				return e.GetType() == scheduler.Event_UPDATE && e.Update.Status.TaskID.Value == id && isTerminal(e.Update.Status.GetState())
			})
		}
	}}
}

// takeOffer returns an offer that fits a task, and declines offers that do not.
func (f *schedulerClient) takeOffer() mesos.Offer {
	for {
		for _, o := range f.offers {
			f.offers = f.offers[1:]
			for _, r := range o.Resources {
				if r.Name == "cpus" && r.Scalar.GetValue() >= 1 {
					return o
				}
			}
			f.sendCall(calls.Decline(o.ID).With(calls.RefuseSeconds(0)))
		}
		f.awaitEvent(func(e *scheduler.Event) bool { return e.GetType() == scheduler.Event_OFFERS })
	}
}

func setAllocation(resources []mesos.Resource, offer mesos.Offer) {
	for i := range resources {
		resources[i].AllocationInfo = offer.AllocationInfo
	}
}

// awaitTaskState waits until a task is in a state. It fails the benchmark if the task reaches
// another terminal state.
func (f *schedulerClient) awaitTaskState(id string, want mesos.TaskState) {
	f.b.Helper()
	f.awaitEvent(func(e *scheduler.Event) bool {
		if e.GetType() != scheduler.Event_UPDATE || e.Update.Status.TaskID.Value != id {
			return false
		}
		if s := e.Update.Status; s.GetState() != want && isTerminal(s.GetState()) {
			f.b.Fatalf("task %s: %s: %s", id, s.GetState(), s.GetMessage())
		}
		return e.Update.Status.GetState() == want
	})
}

func isTerminal(s mesos.TaskState) bool {
	switch s {
	case mesos.TASK_STAGING, mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_KILLING:
		return false
	}
	return true
}

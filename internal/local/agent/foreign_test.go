package agent

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/encoding/codecs"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/executor/calls"
	"github.com/mesos/mesos-go/api/v1/lib/executor/config"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpexec"

	"mesos-gpu/internal/local/agent/container"
)

// TestMain makes the test binary the first process of containers, and an
// executor that is not this project's. The executor exits by syscall.Exit,
// because os.Exit of a race-instrumented binary waits a second.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		var err error
		switch os.Args[1] {
		case container.InitCommand:
			err = container.Init(os.Args[2:])
		case "executor", "foreign-executor":
			err = foreign()
		case oursCommand:
			err = ours(nil)
		case "agent":
			err = doomedAgent(os.Args[2])
		default:
			os.Exit(m.Run())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			syscall.Exit(1)
		}
		syscall.Exit(0)
	}
	os.Exit(m.Run())
}

// foreignExecutor runs the shell script in the data of each task, or does what
// one of the words below stands for.
type foreignExecutor struct {
	cfg     config.Config
	sender  calls.Sender
	tasks   map[string]mesos.TaskInfo
	updates map[string]executor.Call_Update
	quit    bool
	forgot  bool
}

func foreign() error {
	// SIGTERM must end it: as the first child of a container it has no default
	// handler.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if os.Getenv("FOREIGN") == "mute" {
		<-ctx.Done()
		return nil
	}
	cfg, err := config.FromEnv()
	if err != nil {
		return err
	}
	api := url.URL{Scheme: "http", Host: cfg.AgentEndpoint, Path: "/api/v1/executor"}
	client := httpcli.New(
		httpcli.Endpoint(api.String()), httpcli.Codec(codecs.ByMediaType[codecs.MediaTypeProtobuf]),
		httpcli.Do(httpcli.With(httpcli.Timeout(10*time.Second))),
	)
	options := executor.CallOptions{calls.Framework(cfg.FrameworkID), calls.Executor(cfg.ExecutorID)}
	e := &foreignExecutor{
		cfg: cfg, sender: calls.SenderWith(httpexec.NewSender(client.Send), options...),
		tasks: map[string]mesos.TaskInfo{}, updates: map[string]executor.Call_Update{},
	}
	subscriber := calls.SenderWith(httpexec.NewSender(client.Send, httpcli.Close(true)), options...)
	for !e.quit {
		if err := e.session(ctx, subscriber); err != nil {
			fmt.Println("session ended:", err)
		}
		if !cfg.Checkpoint || ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

// session subscribes and handles events until the stream ends.
func (e *foreignExecutor) session(ctx context.Context, subscriber calls.Sender) error {
	var tasks []mesos.TaskInfo
	for _, t := range e.tasks {
		tasks = append(tasks, t)
	}
	var updates []executor.Call_Update
	for _, u := range e.updates {
		updates = append(updates, u)
	}
	resp, err := subscriber.Send(ctx, calls.NonStreaming(calls.Subscribe(tasks, updates)))
	if err != nil {
		return err
	}
	defer resp.Close()
	for !e.quit {
		var event executor.Event
		if err := resp.Decode(&event); err != nil {
			return err
		}
		if err := e.handle(ctx, &event); err != nil {
			return err
		}
	}
	return nil
}

func (e *foreignExecutor) handle(ctx context.Context, event *executor.Event) error {
	fmt.Println("event", event.Type)
	switch event.Type {
	case executor.Event_LAUNCH:
		return e.launch(ctx, event.Launch.Task)
	case executor.Event_ACKNOWLEDGED:
		delete(e.tasks, event.Acknowledged.TaskID.Value)
		delete(e.updates, string(event.Acknowledged.UUID))
	case executor.Event_KILL:
		return e.update(ctx, event.Kill.TaskID, mesos.TASK_KILLED)
	case executor.Event_SHUTDOWN:
		e.quit = os.Getenv("FOREIGN") != "stubborn"
	}
	return nil
}

func (e *foreignExecutor) launch(ctx context.Context, t mesos.TaskInfo) error {
	e.tasks[t.TaskID.Value] = t
	switch word := string(t.Data); word {
	case "silent":
		return nil
	case "exit":
		syscall.Exit(3)
	case "forget":
		if !e.forgot {
			e.forgot = true
			delete(e.tasks, t.TaskID.Value)
			return fmt.Errorf("asked to forget")
		}
		return e.update(ctx, t.TaskID, mesos.TASK_FINISHED)
	case "oom":
		block := make([]byte, 1<<30)
		for i := range block {
			block[i] = byte(i)
		}
	default:
		if err := e.update(ctx, t.TaskID, mesos.TASK_RUNNING); err != nil || word == "block" {
			return err
		}
		if word == "reconnect" {
			return fmt.Errorf("asked to reconnect")
		}
		cmd := exec.CommandContext(ctx, "sh", "-c", word)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return e.update(ctx, t.TaskID, mesos.TASK_FAILED)
		}
		return e.update(ctx, t.TaskID, mesos.TASK_FINISHED)
	}
	return nil
}

func (e *foreignExecutor) update(ctx context.Context, id mesos.TaskID, state mesos.TaskState) error {
	fresh := uuid.New()
	u := calls.Update(mesos.TaskStatus{
		TaskID: id, State: &state, Source: mesos.SOURCE_EXECUTOR.Enum(), UUID: fresh[:],
		ExecutorID: &mesos.ExecutorID{Value: e.cfg.ExecutorID}, Message: message(strings.Join(os.Args[1:], " ")),
	})
	e.updates[string(fresh[:])] = *u.Update
	return e.send(ctx, u)
}

func message(s string) *string { return &s }

func (e *foreignExecutor) send(ctx context.Context, call *executor.Call) error {
	resp, err := e.sender.Send(ctx, calls.NonStreaming(call))
	if resp != nil {
		resp.Close()
	}
	return err
}

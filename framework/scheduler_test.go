package framework

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

func TestJobFromSubmitToExit(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "sub", "journal.db"))
	ctx := frameworktest.Timeout(t)
	view, err := in.SubmitJob(ctx, frameworktest.JobSpec("train", 2, 2, "V100"))
	if err != nil {
		t.Fatal(err)
	}
	if len(view.Tasks) != 2 || view.Terminal || view.ExitCode != nil {
		t.Errorf("after submit: %+v", view)
	}
	view = awaitState(t, in, "train", job.Running)
	a, b := view.Tasks[0], view.Tasks[1]
	devices := slices.Sorted(slices.Values(append(slices.Clone(a.DeviceIDs), b.DeviceIDs...)))
	if diff := cmp.Diff([]string{"GPU-0", "GPU-1", "GPU-2", "GPU-3"}, devices); diff != "" {
		t.Errorf("devices: %s", diff)
	}
	if a.Hostname != "host-1" || a.AgentURL != c.AgentURL() || a.Started.IsZero() {
		t.Errorf("placed %+v", a)
	}
	accept := c.AwaitCall(t, 1, scheduler.Call_ACCEPT, nil).GetAccept()
	if tasks := accept.Operations[0].Launch.TaskInfos; len(tasks) != 2 {
		t.Errorf("%d tasks in the ACCEPT, want both", len(tasks))
	}
	c.EndTask(a.ID, mesos.TASK_FINISHED, "exited with status 0", "0")
	c.EndTask(b.ID, mesos.TASK_FAILED, "exited with status 3", "3")
	if view, err = in.WaitForJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	if view.State != job.Failed || !view.Terminal || view.ExitCode == nil || *view.ExitCode != 3 {
		t.Errorf("ended as %s, exit %v", view.State, view.ExitCode)
	}
	// Each update is acknowledged once.
	for _, id := range []string{a.ID, b.ID} {
		c.AwaitCall(t, 2, scheduler.Call_ACKNOWLEDGE, func(call *scheduler.Call) bool { return call.Acknowledge.TaskID.Value == id })
	}
	in.stopAndWait(t)
	for _, call := range c.Calls() {
		if call.GetType() == scheduler.Call_TEARDOWN {
			t.Error("a graceful stop tore the framework down")
		}
	}
}

// TestRestartFromJournal stops a scheduler with a running, a pending and an ended job and
// starts another one with its journal.
func TestRestartFromJournal(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	ctx := frameworktest.Timeout(t)
	for _, s := range []job.Spec{frameworktest.JobSpec("runs", 1, 2), frameworktest.JobSpec("waits", 1, 1), frameworktest.JobSpec("ended", 1, 8)} {
		if _, err := in.SubmitJob(ctx, s); err != nil {
			t.Fatal(err)
		}
		if s.Name == "runs" {
			awaitState(t, in, "runs", job.Running)
		}
	}
	if err := in.KillJob(ctx, "ended"); err != nil {
		t.Fatal(err)
	}
	before, err := in.ListJobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	in.stopAndWait(t)
	if got := c.RunningTasks(); len(got) != 1 {
		t.Fatalf("running after the stop: %v", got)
	}

	in = startWithJournal(t, c, path)
	subscribe := c.AwaitCall(t, 2, scheduler.Call_SUBSCRIBE, nil)
	if id := subscribe.GetFrameworkID().GetValue(); id != "framework-1" {
		t.Errorf("subscribed again as %q", id)
	}
	after, err := in.ListJobs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range before {
		before[i].WaitReason, after[i].WaitReason = "", "" // reasons are computed again
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("jobs after the restart (-before +after):\n%s", diff)
	}
	running := after[0].Tasks[0]
	c.AwaitCall(t, 1, scheduler.Call_RECONCILE, func(call *scheduler.Call) bool {
		tasks := call.GetReconcile().GetTasks()
		return len(tasks) == 1 && tasks[0].TaskID.Value == running.ID && tasks[0].AgentID.GetValue() == "agent-1"
	})
	c.EndTask(running.ID, mesos.TASK_FINISHED, "exited with status 0", "0")
	if view, err := in.WaitForJob(ctx, "runs"); err != nil || view.State != job.Finished {
		t.Errorf("the running job ended as %s, %v", view.State, err)
	}
	c.SendOffer() // offers the freed resources
	awaitState(t, in, "waits", job.Running)
}

// A new journal is reported, because a mistyped path looks like a scheduler without jobs.
func TestNewJournalIsReported(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	path := filepath.Join(t.TempDir(), "journal.db")
	for _, isNew := range []bool{true, false} {
		log, logged := logrustest.NewNullLogger()
		in := startInstance(t, c, SchedulerConfig{JournalPath: path, Log: log})
		if _, err := in.SubmitJob(frameworktest.Timeout(t), frameworktest.JobSpec(fmt.Sprint("new-", isNew), 1, 8)); err != nil {
			t.Fatal(err)
		}
		in.stopAndWait(t)
		reported := slices.ContainsFunc(logged.AllEntries(), func(e *logrus.Entry) bool {
			return e.Level == logrus.WarnLevel && e.Message == "there was no journal: a new one was created, without jobs" && e.Data["journal"] == path
		})
		if reported != isNew {
			t.Errorf("new journal %t: reported %t", isNew, reported)
		}
	}
}

// TestSecondSchedulerTakesOver starts a second scheduler with a copy of the first one's
// journal, as after kill -9 or when an operator starts two. The first one stops.
func TestSecondSchedulerTakesOver(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	first := startWithJournal(t, c, path)
	ctx := frameworktest.Timeout(t)
	for _, name := range []string{"one", "two"} {
		if _, err := first.SubmitJob(ctx, frameworktest.JobSpec(name, 1, 2)); err != nil {
			t.Fatal(err)
		}
		if name == "one" {
			awaitState(t, first, name, job.Running)
		}
	}
	disk, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(copied, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	second := startWithJournal(t, c, copied)
	select {
	case err := <-first.done:
		if !errors.Is(err, master.ErrReplaced) {
			t.Errorf("the first scheduler ended with %v", err)
		}
	case <-time.After(waitTimeout):
		t.Fatal("the first scheduler did not stop")
	}
	view, err := second.GetJob(ctx, "one")
	if err != nil || view.State != job.Running {
		t.Fatalf("the second scheduler has job one as %s, %v", view.State, err)
	}
	c.EndTask(view.Tasks[0].ID, mesos.TASK_FINISHED, "", "0")
	if view, err = second.WaitForJob(ctx, "one"); err != nil || view.State != job.Finished {
		t.Errorf("job one ended as %s, %v", view.State, err)
	}
	c.SendOffer()
	awaitState(t, second, "two", job.Running)
	if n := len(c.RunningTasks()); n != 1 {
		t.Errorf("%d tasks run, want job two's alone", n)
	}
}

// TestCrashBetweenIntentAndAccept: the journal contains LAUNCHING, but the master has not
// received the ACCEPT.
func TestCrashBetweenIntentAndAccept(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	store, err := journal.OpenBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	s := frameworktest.JobSpec("train", 1, 1)
	s.SetDefaults()
	now := time.Now()
	j := &job.Job{Spec: new(s), Submitted: now, Tasks: []job.Task{{
		ID: "train.0.1.x", Job: "train", Attempt: 1, State: job.Launching, AgentID: "agent-1", AgentURL: c.AgentURL(),
		DeviceIDs: []string{"GPU-0"}, Launched: now, Changed: now,
	}}}
	if err := store.Commit(context.Background(), journal.Change{FrameworkID: "framework-1", Jobs: []*job.Job{j}, Tasks: j.Tasks}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	in := startWithJournal(t, c, path)
	view := awaitState(t, in, "train", job.Running)
	if id := view.Tasks[0].ID; id == "train.0.1.x" || view.Tasks[0].Attempt != 2 {
		t.Errorf("runs as %s, attempt %d: want a new attempt", id, view.Tasks[0].Attempt)
	}
	if got := c.RunningTasks(); len(got) != 1 {
		t.Errorf("running: %v", got)
	}
}

func TestKill(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("long", 1, 1)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "long", job.Running)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("idle", 1, 1)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"long", "idle"} {
		if err := in.KillJob(ctx, name); err != nil {
			t.Fatal(err)
		}
		if view, err := in.WaitForJob(ctx, name); err != nil || view.State != job.Killed {
			t.Errorf("%s ended as %s, %v", name, view.State, err)
		}
	}
	c.AwaitCall(t, 1, scheduler.Call_KILL, nil)
	wantProblem(t, in.KillJob(ctx, "unknown"), http.StatusNotFound, `no job "unknown"`)
}

func wantProblem(t *testing.T, err error, status int, detail string) {
	t.Helper()
	var p *api.Problem
	if !errors.As(err, &p) || p.Status != status || !strings.Contains(p.Detail, detail) {
		t.Errorf("got %v, want status %d with %q", err, status, detail)
	}
}

func TestInvalidRequestsAreRejected(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := frameworktest.Timeout(t)
	_, err := in.SubmitJob(ctx, frameworktest.JobSpec("typo", 1, 1, "V1000"))
	wantProblem(t, err, http.StatusUnprocessableEntity, `gpu_type "V1000": no agent has it and no NVIDIA GPU has that name; this cluster has V100 (4); did you mean V100?`)
	if _, err = in.SubmitJob(ctx, frameworktest.JobSpec("later", 1, 1, "H100")); err != nil {
		t.Errorf("a GPU type without an agent: %v", err)
	}
	_, err = in.SubmitJob(ctx, frameworktest.JobSpec("later", 1, 1))
	wantProblem(t, err, http.StatusConflict, `job "later" is WAITING`)
	_, err = in.SubmitJob(ctx, frameworktest.JobSpec("bad name", 1, 1))
	wantProblem(t, err, http.StatusUnprocessableEntity, "bad name")
	_, err = in.GetJob(ctx, "unknown")
	wantProblem(t, err, http.StatusNotFound, "unknown")
	for _, err := range in.StreamEvents(ctx, "unknown") {
		wantProblem(t, err, http.StatusNotFound, "unknown")
	}
	c.AwaitCall(t, 1, scheduler.Call_DECLINE, nil)
	awaitCondition(t, "the reason names the listed agents", func() bool {
		view, err := in.GetJob(ctx, "later")
		return err == nil && view.WaitReason == "1 H100 on one agent; no agent has the type, 1 agent is known: V100 on 1; it cannot start with the present agents"
	})
}

func TestClusterViews(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 1)); err != nil {
		t.Fatal(err)
	}
	task := awaitState(t, in, "train", job.Running).Tasks[0]
	agents, err := in.ListAgents(ctx)
	want := []api.AgentSummary{{ID: "agent-1", Hostname: "host-1", URL: c.AgentURL(), Types: []string{"V100"}, GPUs: 2, GPUsFree: 2, CPUs: 64, MemMiB: 65536}}
	if diff := cmp.Diff(want, agents); diff != "" || err != nil {
		t.Errorf("agents %v (-want +got):\n%s", err, diff)
	}
	gpus, err := in.ListGPUs(ctx)
	wantGPUs := []api.GPUView{
		// the fake master does not account for allocations
		{UUID: "GPU-0", Model: "V100", Type: "V100", Agent: "agent-1", Hostname: "host-1", Task: task.ID, State: api.FreeGPU},
		{UUID: "GPU-1", Model: "V100", Type: "V100", Agent: "agent-1", Hostname: "host-1", State: api.FreeGPU},
	}
	if diff := cmp.Diff(wantGPUs, gpus); diff != "" || err != nil {
		t.Errorf("GPUs %v (-want +got):\n%s", err, diff)
	}
	h, err := in.GetHealth(ctx)
	if err != nil || !h.Connected || h.FrameworkID != "framework-1" {
		t.Errorf("health %+v, %v", h, err)
	}
}

func TestLogIsFollowed(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 1)); err != nil {
		t.Fatal(err)
	}
	task := awaitState(t, in, "train", job.Running).Tasks[0]
	path := master.SandboxFilePath("framework-1", task.ID, "stdout")
	wantNoOutput := func(task, text string, o client.OutputOptions) {
		t.Helper()
		for part, err := range in.ReadTaskOutput(ctx, task, o) {
			if err == nil {
				t.Fatalf("read %q", part.Output())
			}
			wantProblem(t, err, http.StatusNotFound, text)
		}
	}
	wantNoOutput(task.ID, "has no stdout", client.OutputOptions{})
	next, stop := iter.Pull2(in.ReadTaskOutput(ctx, task.ID, client.OutputOptions{Follow: true}))
	defer stop()
	time.AfterFunc(50*time.Millisecond, func() { c.SetFile(path, "one\n") }) // following starts before the file exists
	if part, err, ok := next(); err != nil || !ok || part.Text != "one\n" {
		t.Fatalf("read %q, %v", part.Text, err)
	}
	c.SetFile(path, "one\ntwo\n")
	c.EndTask(task.ID, mesos.TASK_FINISHED, "", "0")
	if part, err, _ := next(); err != nil || part.Text != "two\n" {
		t.Errorf("the rest is %q, %v", part.Text, err)
	}
	if part, err, ok := next(); ok {
		t.Errorf("read %q, %v after the end", part.Text, err)
	}
	wantNoOutput("unknown.0", "unknown.0", client.OutputOptions{Follow: true})
}

func TestPortAndJournalInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	path := filepath.Join(t.TempDir(), "journal.db")
	s, err := New(SchedulerConfig{APIAddr: l.Addr().String(), JournalPath: path, Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), l.Addr().String()) || strings.Contains(err.Error(), "\n") {
		t.Errorf("port in use: %v", err)
	}
	store, err := journal.OpenBolt(path)
	if err != nil {
		t.Fatalf("the journal was not released: %v", err)
	}
	defer store.Close()
	if err = s.Run(context.Background()); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("journal in use: %v", err)
	}
}

func TestRemovedFrameworkEndsTheScheduler(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	c.AwaitCall(t, 1, scheduler.Call_SUBSCRIBE, nil)
	c.SendEvents(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework has been removed"}})
	select {
	case err := <-in.done:
		if !errors.Is(err, master.ErrRemoved) {
			t.Errorf("Run returned %v", err)
		}
	case <-time.After(waitTimeout):
		t.Fatal("Run did not return")
	}
}

func TestTeardown(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	c.AwaitCall(t, 1, scheduler.Call_SUPPRESS, nil) // connected
	if err := in.Teardown(frameworktest.Timeout(t)); err != nil {
		t.Fatal(err)
	}
	c.AwaitCall(t, 1, scheduler.Call_TEARDOWN, nil)
	idle, err := New(SchedulerConfig{Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	if err := idle.Teardown(frameworktest.Timeout(t)); !errors.Is(err, master.ErrNotConnected) {
		t.Errorf("teardown of a scheduler that does not run: %v", err)
	}
}

// A failed part ends the others, and is not mistaken for the end of the context because a timeout has caused it.
func TestRunTogether(t *testing.T) {
	untilEnd := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	timedOut := fmt.Errorf("write the journal: %w", context.DeadlineExceeded)
	fails := func(context.Context) error { return timedOut }
	returns := func(context.Context) error { return nil }
	if err := runTogether(t.Context(), untilEnd, returns, fails); err != timedOut {
		t.Errorf("got %v, want the part's error", err)
	}
	if err := runTogether(t.Context(), returns, returns); err != nil {
		t.Errorf("got %v after all parts returned", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ends := func(ctx context.Context) error {
		cancel()
		return untilEnd(ctx)
	}
	if err := runTogether(ctx, untilEnd, ends); err != nil {
		t.Errorf("got %v after the context ended", err)
	}
}

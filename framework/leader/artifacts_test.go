package leader

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// newArtifactLeader returns a leader with a store of artifacts and a job whose only task has ended on the agent at url.
func newArtifactLeader(t *testing.T, url string, ended, now time.Time) (*Leader, *job.Task) {
	t.Helper()
	client, err := master.New(master.ConnectionConfig{Master: url, ExecutorPath: "/x", FrameworkID: "f", Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	store, err := artifacts.NewStore(filepath.Join(t.TempDir(), "artifacts"), artifacts.Limits{Task: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	model := modelOf(job.Job{
		Spec:  &job.Spec{Name: "train", Tasks: 1, Containerizer: job.Docker, Artifacts: []string{"model"}},
		Tasks: []job.Task{{ID: "train.0", Job: "train", State: job.Finished, AgentID: "a0", AgentURL: url, Ended: ended}},
	})
	task, err := model.FindTask("train.0")
	if err != nil {
		t.Fatal(err)
	}
	loop := &Loop{Model: model, clock: func() time.Time { return now }, log: frameworktest.DiscardLog()}
	return New(loop, Config{Client: client, Artifacts: store}), &task
}

// TestStoppingLeaderGivesNoArtifactsUp ends the leadership while an old task's artifacts are copied. The next leader
// must copy them: only a failure of the agent may be recorded as final.
func TestStoppingLeaderGivesNoArtifactsUp(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stopping := true
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stopping {
			stop() // the client gives up and ignores the answer
			return
		}
		http.Error(w, "the disk is broken", http.StatusInternalServerError)
	}))
	t.Cleanup(agent.Close)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b, task := newArtifactLeader(t, agent.URL, now.Add(-copyGiveUp-time.Hour), now)
	if err := b.Artifacts.copyTaskArtifacts(ctx, &readmodel.EndedTask{Task: *task, Paths: []string{"model"}}); err == nil {
		t.Error("a copy that was cut off is done")
	}
	if r, err := b.Artifacts.store.FindReport(t.Context(), task); err != nil || r != nil {
		t.Errorf("it has the report %+v, %v", r, err)
	}
	stopping = false
	if err := b.Artifacts.copyTaskArtifacts(t.Context(), &readmodel.EndedTask{Task: *task, Paths: []string{"model"}}); err != nil {
		t.Errorf("a failure after the time limit is not final: %v", err)
	}
	if r, err := b.Artifacts.store.FindReport(t.Context(), task); err != nil || r == nil || r.Error == "" {
		t.Errorf("the failure has the report %+v, %v", r, err)
	}
}

// TestForgottenTasksNeedNoArtifacts checks that a leader does not remember tasks that the read model has forgotten.
func TestForgottenTasksNeedNoArtifacts(t *testing.T) {
	jobs := make([]*job.Job, 3)
	for i := range jobs {
		name := fmt.Sprint("train-", i)
		jobs[i] = &job.Job{
			Spec:  &job.Spec{Name: name, Tasks: 1, Artifacts: []string{"model"}},
			Tasks: []job.Task{{ID: name + ".0", Job: name, State: job.Killed}}, // without an agent: nothing to copy
		}
	}
	model := readmodel.New(journal.JournalContents{FrameworkID: "f", Jobs: jobs})
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	b, _ := newArtifactLeader(t, "http://192.0.2.1:5051", now, now)
	b.Model = model
	q := b.Artifacts.newQueue()
	q.pending["forgotten.0"], q.pending["forgotten.1"] = &pendingCopy{}, &pendingCopy{retryAt: time.Now()}
	model.VisitEndedTasks(q.add)
	if len(q.pending) != len(jobs)+2 {
		t.Errorf("%d tasks are pending", len(q.pending))
	}
	for q.findDue(); len(q.due) > 0; q.findDue() {
		q.startCopies(t.Context())
		for range q.running {
			q.finishCopy(t.Context(), <-q.finished)
		}
	}
	if len(q.pending) > 0 || q.repeated != 0 {
		t.Errorf("the leader remembers %v", q.pending)
	}
}

// agentTransport answers requests for the sandboxes of tasks by the host of their agents.
type agentTransport func(host string) (*http.Response, error)

func (f agentTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := f(r.URL.Hostname())
	if err == nil {
		res.Request = r
	}
	return res, err
}

// noSandbox is the answer of an agent that does not have the sandbox: the copy is complete.
func noSandbox() (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(http.StatusNotFound)
	return w.Result(), nil
}

// endedTasks returns a job with artifacts whose tasks have ended on a host.
func endedTasks(name, host string, count int) *job.Job {
	j := &job.Job{Run: 1, Submitted: time.Now(), Spec: &job.Spec{Name: name, Tasks: count, Containerizer: job.Docker, Artifacts: []string{"model"}}}
	for i := range count {
		j.Tasks = append(j.Tasks, job.Task{
			ID: fmt.Sprintf("%s.%d", name, i), Job: name, Run: 1, Index: i, State: job.Finished,
			AgentID: host, AgentURL: "http://" + host + ":5051", Ended: time.Now(),
		})
	}
	return j
}

// runArtifactLeader copies artifacts of the model's tasks in a synctest bubble until the test ends.
func runArtifactLeader(t *testing.T, model *readmodel.Model, agents agentTransport, log logrus.FieldLogger) *Leader {
	t.Helper()
	client, err := master.New(master.ConnectionConfig{Master: "http://m", ExecutorPath: "/x", FrameworkID: "f", Log: log, Transport: agents})
	if err != nil {
		t.Fatal(err)
	}
	store, err := artifacts.NewStore(filepath.Join(t.TempDir(), "artifacts"), artifacts.Limits{Task: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	b := New(&Loop{Model: model, clock: time.Now, log: log}, Config{Client: client, Artifacts: store})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Artifacts.CopyArtifacts(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return b
}

// countReports returns how many of the tasks have a report in the store.
func countReports(t *testing.T, b *Leader, tasks []job.Task) (n int) {
	t.Helper()
	for i := range tasks {
		r, err := b.Artifacts.store.FindReport(t.Context(), &tasks[i])
		if err != nil {
			t.Fatal(err)
		}
		if r != nil {
			n++
		}
	}
	return n
}

// TestUnreachableAgentDelaysNoOtherCopies: an agent with 400 ended tasks does not answer. Tasks that end on other agents are
// copied meanwhile, the agent is tried once a minute and logged as often, and all of its tasks are copied when it answers.
func TestUnreachableAgentDelaysNoOtherCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dialTimeout = 5 * time.Second
		var unreachable atomic.Bool
		var tries atomic.Int32
		unreachable.Store(true)
		lost := endedTasks("lost", "down", 400)
		model := readmodel.New(journal.JournalContents{FrameworkID: "f", Jobs: []*job.Job{lost}})
		log, logged := logtest.NewNullLogger()
		b := runArtifactLeader(t, model, func(host string) (*http.Response, error) {
			if host == "down" && unreachable.Load() {
				tries.Add(1)
				time.Sleep(dialTimeout)
				return nil, errors.New("i/o timeout")
			}
			return noSandbox()
		}, log)
		time.Sleep(copyPause)
		const minutes = 10
		const wait = copyPause + dialTimeout + time.Second
		for i := range int(minutes * time.Minute / wait) {
			done := endedTasks(fmt.Sprint("done-", i), "up", 1)
			model.ApplyChange(frameworktest.ChangeOf(done))
			time.Sleep(wait)
			if countReports(t, b, done.Tasks) == 0 {
				t.Fatalf("task %d, which ended on another agent, waits", i)
			}
		}
		if n, warnings := int(tries.Load()), len(logged.AllEntries()); n < minutes-1 || n > (minutes+1)*maxCopies ||
			warnings < minutes-1 || warnings > minutes+1 {
			t.Errorf("in %d minutes there are %d attempts and %d warnings", minutes, n, warnings)
		}
		unreachable.Store(false)
		time.Sleep(copyRetry + dialTimeout + copyPause)
		if n := countReports(t, b, lost.Tasks); n != len(lost.Tasks) {
			t.Errorf("%d of %d tasks are copied when the agent answers", n, len(lost.Tasks))
		}
	})
}

// TestSlowRepeatedCopiesLeaveSlots: while copies that have failed before take long, others are made.
func TestSlowRepeatedCopiesLeaveSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Bool
		slow := endedTasks("slow", "slow", 20)
		model := readmodel.New(journal.JournalContents{FrameworkID: "f", Jobs: []*job.Job{slow}})
		b := runArtifactLeader(t, model, func(host string) (*http.Response, error) {
			switch {
			case host == "slow" && failed.Load():
				time.Sleep(time.Hour)
			case host == "slow":
				w := httptest.NewRecorder()
				w.WriteHeader(http.StatusInternalServerError)
				return w.Result(), nil
			}
			return noSandbox()
		}, frameworktest.DiscardLog())
		time.Sleep(copyRetry / 2)
		failed.Store(true)
		time.Sleep(copyRetry)
		done := endedTasks("done", "up", 1)
		model.ApplyChange(frameworktest.ChangeOf(done))
		time.Sleep(copyPause + time.Second)
		if countReports(t, b, done.Tasks) == 0 {
			t.Error("a task that ended waits for copies that have failed before")
		}
	})
}

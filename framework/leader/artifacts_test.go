package leader

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/clusterview"
	"mesos-gpu/framework/internal/frameworktest"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
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
	store, err := artifacts.NewStore(filepath.Join(t.TempDir(), "artifacts"), 1<<20)
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
	return &Leader{
		Reader: clusterview.Reader{Model: model, Client: client}, artifacts: store,
		loop: &Loop{clock: func() time.Time { return now }, log: frameworktest.DiscardLog()},
	}, &task
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
	b, task := newArtifactLeader(t, agent.URL, now.Add(-artifactGiveUp-time.Hour), now)
	done, err := b.copyTaskArtifacts(ctx, task, []string{"model"})
	if done || err == nil {
		t.Errorf("a copy that was cut off is done: %v, %v", done, err)
	}
	if r, err := b.artifacts.FindReport(t.Context(), task); err != nil || r != nil {
		t.Errorf("it has the report %+v, %v", r, err)
	}
	stopping = false
	if done, err := b.copyTaskArtifacts(t.Context(), task, []string{"model"}); !done || err != nil {
		t.Errorf("a failure after the time limit is not final: %v, %v", done, err)
	}
	if r, err := b.artifacts.FindReport(t.Context(), task); err != nil || r == nil || r.Error == "" {
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
	copied := map[string]bool{"forgotten.0": true}
	b.copyEnded(t.Context(), copied)
	if len(copied) != len(jobs) || copied["forgotten.0"] {
		t.Errorf("the leader remembers %v", copied)
	}
}

package leader

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/framework/artifacts"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// outputAgent answers each read of a file with text.
func outputAgent(text string) agentTransport {
	return func(string) (*http.Response, error) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/api/v1", nil)
		r.Header.Set("Accept", "application/x-protobuf")
		mesosapi.WriteResponse(w, r, &agent.Response{
			Type:     agent.Response_READ_FILE,
			ReadFile: &agent.Response_ReadFile{Size_: uint64(len(text)), Data: []byte(text)},
		})
		return w.Result(), nil
	}
}

// runOutputLeader stores output of the model's tasks in a synctest bubble. The caller calls stop, which ends the leadership.
func runOutputLeader(t *testing.T, model *readmodel.Model, agents agentTransport, store *artifacts.Store, limit int64) (stop func()) {
	t.Helper()
	log := frameworktest.DiscardLog()
	client, err := master.New(master.ConnectionConfig{Master: "http://m", ExecutorPath: "/x", FrameworkID: "f", Log: log, Transport: agents})
	if err != nil {
		t.Fatal(err)
	}
	l := New(&Loop{Model: model, clock: time.Now, log: log}, Config{Client: client, Artifacts: store, OutputBytes: limit})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Output.StoreOutput(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func newOutputStore(t *testing.T) *artifacts.Store {
	t.Helper()
	store, err := artifacts.NewStore(filepath.Join(t.TempDir(), "artifacts"), artifacts.Limits{Task: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// hasStored reports whether a new reader of the store finds the output of an attempt.
func hasStored(t *testing.T, store *artifacts.Store, task string) bool {
	t.Helper()
	tail, err := store.ReadOutput(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	return tail != nil
}

// TestOutputIsStoredWithTheRecord: the output of each attempt, also of an earlier one, is stored after its end, by the next leader
// if this one stops before, and removed with the record of the attempt.
func TestOutputIsStoredWithTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		contents := func(jobs ...*job.Job) *readmodel.Model {
			return readmodel.New(journal.JournalContents{FrameworkID: "f", Jobs: jobs})
		}
		store, old := newOutputStore(t), endedTasks("old", "up", 1)
		old.Spec.Artifacts = nil
		model := contents()
		stop := runOutputLeader(t, model, outputAgent("x"), store, 1<<20)
		time.Sleep(copyPause + time.Second)
		model.ApplyChange(frameworktest.ChangeOf(old))
		time.Sleep(copyPause / 2)
		stop()
		if hasStored(t, store, "old.0") {
			t.Fatal("the output is stored before the failover: the test checks nothing")
		}
		// The next leader, with a retried task, one that has run elsewhere, and one that has ended too long ago.
		retried, finished, ancient := endedTasks("retried", "up", 1), endedTasks("retried", "up", 1), endedTasks("ancient", "up", 1)
		retried.Tasks[0].ID, retried.Tasks[0].State = "retried.0.2", job.Running
		earlier := finished.Tasks[0]
		earlier.State = job.Failed
		ancient.Tasks[0].Ended = time.Now().Add(-copyGiveUp - time.Second)
		model = contents(old, retried, ancient)
		record, err := json.Marshal(earlier)
		if err != nil {
			t.Fatal(err)
		}
		model.ApplyChange(journal.Change{Documents: map[string][]byte{"attempt/" + earlier.ID: record}})
		stop = runOutputLeader(t, model, outputAgent("x"), store, 1<<20)
		time.Sleep(copyPause + time.Second)
		if !hasStored(t, store, "old.0") || !hasStored(t, store, "retried.0") || hasStored(t, store, "retried.0.2") || hasStored(t, store, "ancient.0") {
			t.Error("the next leader has not stored the output of the tasks that ended before, and only of these")
		}
		model.ApplyChange(journal.Change{Removed: []job.RunID{old.RunID()}})
		time.Sleep(forgottenOutputInterval)
		if hasStored(t, store, "old.0") || !hasStored(t, store, "retried.0") {
			t.Error("the output does not live as long as the record")
		}
		stop()
		// A leader that stores none removes it with the records of what was stored before.
		stop = runOutputLeader(t, contents(old), outputAgent("x"), store, 0)
		time.Sleep(copyPause + time.Second)
		if hasStored(t, store, "retried.0") || hasStored(t, store, "old.0") {
			t.Error("a leader that stores no output has the wrong output")
		}
		stop()
	})
}

// TestOutputIsNotRetriedForEver: an agent without the sandbox is asked once, and one that does not answer for a day.
func TestOutputIsNotRetriedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone, down atomic.Int32
		model := readmodel.New(journal.JournalContents{FrameworkID: "f", Jobs: []*job.Job{endedTasks("gone", "gone", 1), endedTasks("down", "down", 1)}})
		stop := runOutputLeader(t, model, func(host string) (*http.Response, error) {
			if host == "gone" {
				gone.Add(1)
				return noSandbox()
			}
			down.Add(1)
			return nil, errors.New("no route to host")
		}, newOutputStore(t), 1<<20)
		defer stop()
		time.Sleep(copyGiveUp + time.Hour)
		tries := int(down.Load())
		if want := int(copyGiveUp / copyRetry); tries < want-10 || tries > want+10 {
			t.Errorf("an agent that does not answer was asked %d times in a day, want about %d", tries, want)
		}
		if n := gone.Load(); n == 0 || n > 5 { // the index, both streams, and their rotated files
			t.Errorf("an agent without the sandbox was asked %d times", n)
		}
		time.Sleep(copyGiveUp)
		if n := int(down.Load()); n != tries {
			t.Errorf("it was asked %d times on the second day", n-tries)
		}
	})
}

// TestFinishedTaskOfEarlierRunHasOutput: the output of a task that has finished in an earlier run is stored for each run, also
// without the sandbox.
func TestFinishedTaskOfEarlierRunHasOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, first := newOutputStore(t), endedTasks("train", "up", 1)
		model := readmodel.New(journal.JournalContents{FrameworkID: "f", Jobs: []*job.Job{first}})
		var removed atomic.Bool
		stop := runOutputLeader(t, model, func(host string) (*http.Response, error) {
			if removed.Load() {
				return noSandbox()
			}
			return outputAgent("x")(host)
		}, store, 1<<20)
		defer stop()
		time.Sleep(copyPause + time.Second)
		removed.Store(true)
		second := endedTasks("train", "up", 1)
		second.Run, second.Tasks[0].Run, second.Tasks[0].ID = 2, 2, "train.0.2"
		second.Tasks[0].FinishedAs, second.Tasks[0].Ended, second.Tasks[0].Changed = first.Tasks[0].ID, time.Time{}, time.Now()
		model.ApplyChange(frameworktest.ChangeOf(second))
		time.Sleep(copyPause + time.Second)
		if !hasStored(t, store, "train.0") || !hasStored(t, store, "train.0.2") {
			t.Error("the output is not stored for both runs")
		}
	})
}

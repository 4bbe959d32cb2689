package leader

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// execModel returns a model of a job with two tasks, the first of which runs on that agent.
func execModel(agent string, c job.Containerizer) *readmodel.Model {
	return modelOf(job.Job{
		Spec:  &job.Spec{Name: "train", Tasks: 2, Containerizer: c},
		Tasks: []job.Task{{ID: "train.0", Job: "train", State: job.Running, AgentURL: agent}, {ID: "train.1", Job: "train", Index: 1, State: job.Waiting}},
	})
}

func modelOf(j job.Job) *readmodel.Model {
	return readmodel.New(journal.JournalContents{FrameworkID: "f", Jobs: []*job.Job{&j}})
}

func TestExecCommandOfATask(t *testing.T) {
	r := &api.ExecRequest{Argv: []string{"nvidia-smi"}, TTY: true, Rows: 3, Cols: 4}
	for _, c := range []job.Containerizer{job.Docker, job.Mesos} {
		got, err := execCommand(execModel("http://a", c), "train", 0, r)
		if err != nil || got.AgentURL != "http://a" || got.ExecutorID != "train.0" || got.Engine != (c == job.Docker) ||
			got.Argv[0] != "nvidia-smi" || !got.TTY || got.Rows != 3 || got.Cols != 4 {
			t.Errorf("%s: %+v, %v", c, got, err)
		}
	}
	for _, test := range []struct {
		name   string
		task   int
		status int
		want   string
	}{
		{"other", 0, http.StatusNotFound, `no job "other"`},
		{"train", 2, http.StatusNotFound, "no task 2: it has 2"},
		{"train", -1, http.StatusNotFound, "no task -1"},
		{"train", 1, http.StatusConflict, "task 1 of job \"train\" is WAITING"},
	} {
		_, err := execCommand(execModel("http://a", job.Mesos), test.name, test.task, r)
		var p *api.Problem
		if !errors.As(err, &p) || p.Status != test.status || !strings.Contains(p.Detail, test.want) {
			t.Errorf("task %d of %s: %v, want %d and %q", test.task, test.name, err, test.status, test.want)
		}
	}
}

// Exec returns different errors for different causes; losing leadership ends a command.
func TestExecErrorsAreDistinguished(t *testing.T) {
	asked := make(chan struct{}, 1)
	answer := func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "gone mad", http.StatusInternalServerError)
	}
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	t.Cleanup(agent.Close)
	client, err := master.New(master.ConnectionConfig{Master: agent.URL, ExecutorPath: "/x", FrameworkID: "f", Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ended := make(chan struct{})
	b := New(&Loop{Model: execModel(agent.URL, job.Mesos)}, Config{Client: client, Stopped: ended})
	want := func(what string, status int, text string) {
		t.Helper()
		_, err := b.Streams.Exec(t.Context(), "train", 0, api.ExecRequest{Argv: []string{"true"}}, api.Terminal{Resize: make(chan api.WindowSize)})
		var p *api.Problem
		if !errors.As(err, &p) || p.Status != status || !strings.Contains(p.Detail, text) {
			t.Errorf("%s: %v, want %d and %q", what, err, status, text)
		}
	}
	want("an agent's error", http.StatusBadGateway, "gone mad")
	answer = func(http.ResponseWriter, *http.Request) {}
	want("no container", http.StatusConflict, "it may be starting or ending")
	answer = func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-r.Context().Done()
	}
	go func() {
		<-asked
		close(ended)
	}()
	want("the end of the lead", http.StatusServiceUnavailable, "no longer leads")
}

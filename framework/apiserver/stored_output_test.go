package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/taskoutput"
	"mesos-gpu/job"
)

// tailStore has the stored output of one attempt.
type tailStore struct {
	task  string
	tail  *taskoutput.Tail
	err   error
	reads int
}

func (s *tailStore) ReadOutput(_ context.Context, task string) (*taskoutput.Tail, error) {
	s.reads++
	if task != s.task {
		return nil, s.err
	}
	return s.tail, s.err
}

// newTailStore stores the last 10 bytes of what train.0 has written: "a\nb\nc\nd\ne\nf\ng\n".
func newTailStore(t *testing.T) *tailStore {
	t.Helper()
	const text = "a\nb\nc\nd\ne\nf\ng\n"
	tail, err := taskoutput.ReadTail(func(file string, offset, length uint64) ([]byte, uint64, error) {
		switch file {
		case "stdout":
			return []byte(text[min(offset, uint64(len(text))):min(offset+length, uint64(len(text)))]), uint64(len(text)), nil
		case "stderr":
			return nil, 0, nil
		}
		return nil, 0, request.ErrNoLog
	}, 10)
	if err != nil {
		t.Fatal(err)
	}
	return &tailStore{task: "train.0", tail: tail}
}

// serveStored serves the task of f, and the stored output, to users by a policy, nil for none.
func serveStored(t *testing.T, f *fakeBackend, store StoredOutputReader, p *access.AccessPolicy) string {
	t.Helper()
	h := NewHandler(func() Backend {
		b := newLeaderBackend(f)
		b.Reads.StoredOutput = store
		return b
	}, discardLogger())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p != nil {
			r = r.WithContext(apihttp.WithGrant(r.Context(), p.GrantFor(access.Identity{Name: r.Header.Get("Who")})))
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// endedTask returns a backend whose agent answers reads of output with err.
func endedTask(state job.State, err error) *fakeBackend {
	return &fakeBackend{
		state: state,
		task:  job.Task{ID: "train.0", Job: "train", AgentID: "a", State: state, Started: time.Unix(1, 0)},
		whose: map[string][2]string{"train": {"research", "owner"}},
		readLog: func(uint64) ([]byte, error) {
			return nil, err
		},
	}
}

// TestStoredOutputIsReturned: stored output is returned only if the task has ended and its agent has no sandbox of it or cannot be
// reached, and the answer says so.
func TestStoredOutputIsReturned(t *testing.T) {
	gone := fmt.Errorf("read: %w", request.ErrNoLog)
	down := fmt.Errorf("read: %w", &url.Error{Op: "Post", URL: "http://agent", Err: errors.New("no route to host")})
	const first, missing = `{"after":"","stored":{"bytes":10,"missing_bytes":4}}`, "4"
	const text = `{"stream":"stdout","text":"c\nd\ne\nf\ng\n","after":"14,0"}`
	const noErrors = `{"after":"","stored":{"bytes":0,"missing_bytes":0}}`
	const lastLine = `{"stream":"stdout","text":"g\n","after":"14,0"}`
	const end = `{"after":"14,0","complete":true}`
	for name, c := range map[string]struct {
		f        *fakeBackend
		task     string // whose output is stored
		path     string
		status   int
		body     string
		missing  string
		readsNot bool
	}{
		"gone":           {endedTask(job.Failed, gone), "train.0", "output", 200, first + "\n" + text + "\n" + end, missing, false},
		"gone, followed": {endedTask(job.Killed, gone), "train.0", "output?follow=true", 200, first + "\n" + text + "\n" + end, missing, false},
		"unreachable": {endedTask(job.Lost, down), "train.0", "output", 200,
			`{"after":"","stored":{"bytes":10,"missing_bytes":4,"agent_unreachable":true}}` + "\n" + text + "\n" + end, missing, false},
		"continued":               {endedTask(job.Finished, gone), "train.0", "output?after=12,0", 200, lastLine + "\n" + end, missing, false},
		"last lines":              {endedTask(job.Finished, gone), "train.0", "output?tail=1", 200, first + "\n" + lastLine + "\n" + end, missing, false},
		"no stderr":               {endedTask(job.Finished, gone), "train.0", "output?stream=stderr", 200, noErrors + "\n" + end, "0", false},
		"bytes":                   {endedTask(job.Finished, gone), "train.0", "log", 200, "c\nd\ne\nf\ng\n", missing, false},
		"last bytes":              {endedTask(job.Finished, gone), "train.0", "log?tail=2", 200, "g\n", missing, false},
		"not stored":              {endedTask(job.Finished, gone), "train.0.2", "output", 404, "has no stdout of it", "", false},
		"unreachable, not stored": {endedTask(job.Finished, down), "train.0.2", "output", 502, "no route to host", "", false},
		"broken agent":            {endedTask(job.Finished, errors.New("the disk is broken")), "train.0", "output", 502, "the disk is broken", "", true},
		"live":                    {endedTask(job.Running, gone), "train.0", "output", 404, "has no stdout of it", "", true},
		"live and unreachable":    {endedTask(job.Unreachable, down), "train.0", "log", 502, "no route to host", "", true},
		"in the sandbox":          {endedTask(job.Finished, nil), "train.0", "log", 200, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			store := newTailStore(t)
			store.task = c.task
			res, err := http.Get(serveStored(t, c.f, store, nil) + "/v1/tasks/train.0/" + c.path)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			same := strings.TrimSpace(string(body)) == strings.TrimSpace(c.body)
			if res.StatusCode != c.status || !same && (c.status == 200 || !strings.Contains(string(body), c.body)) {
				t.Errorf("answered %d %s", res.StatusCode, body)
			}
			if got := res.Header.Get(api.StoredOutputMissing); got != c.missing || (store.reads > 0) == c.readsNot {
				t.Errorf("the header is %q after %d reads", got, store.reads)
			}
		})
	}
	store := newTailStore(t)
	store.err = errors.New("the bucket is broken")
	if status, _, body := sendRequest(t, "GET", serveStored(t, endedTask(job.Finished, gone), store, nil)+"/v1/tasks/train.0/output", ""); status != 502 ||
		!strings.Contains(body, "the bucket is broken") {
		t.Errorf("a broken store: %d %s", status, body)
	}
}

// TestStoredOutputIsPrivate: who may not read the output of a task from its sandbox may not read what is stored of it.
func TestStoredOutputIsPrivate(t *testing.T) {
	p := rolePolicy()
	p.PrivateOutput = true
	store := newTailStore(t)
	address := serveStored(t, endedTask(job.Finished, request.ErrNoLog), store, p)
	for user, want := range map[string]int{"": 401, "stranger": 404, "viewer": 403, "submitter": 403, "owner": 200, "operator": 200, "root": 200} {
		for _, path := range []string{"output", "log"} {
			store.reads = 0
			status, _, body := sendRequest(t, "GET", address+"/v1/tasks/train.0/"+path, "", "Who", user)
			if status != want || (store.reads > 0) != (want == 200) || strings.Contains(body, `c\nd`) != (want == 200 && path == "output") {
				t.Errorf("%s as %q: %d %s, %d reads of the store", path, user, status, body, store.reads)
			}
		}
	}
}

package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

func newTestClient(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestProblemsAreReturned(t *testing.T) {
	for body, want := range map[string]string{
		`{"title":"Conflict","status":409,"detail":"taken"}`: "taken",
		`<html>proxy</html>`: "answered 409 Conflict: <html>proxy</html>",
	} {
		c := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, body)
		})
		_, err := c.SubmitJob(context.Background(), job.Spec{Name: "train"})
		var p *api.Problem
		if !errors.As(err, &p) || p.Status != 409 || !strings.Contains(p.Error(), want) {
			t.Errorf("got %v, want a problem with %q", err, want)
		}
	}
}

// Another server's 404 is not that of an unknown object.
func TestForeignServersAreNamed(t *testing.T) {
	c := newTestClient(t, http.NotFound)
	if _, err := c.ListJobs(context.Background()); err == nil ||
		!strings.HasSuffix(err.Error(), "answered 404 Not Found: it is no mesos-gpu scheduler, or one of another version") {
		t.Errorf("got %v", err)
	}
}

func TestInvalidAnswers(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "data: {}}\n\n") })
	ctx := context.Background()
	if _, err := c.ListJobs(ctx); err == nil || !strings.Contains(err.Error(), "GET /v1/jobs") {
		t.Errorf("got %v", err)
	}
	for _, err := range c.StreamEvents(ctx, "") {
		if err == nil || !strings.Contains(err.Error(), "parse event") {
			t.Errorf("got %v", err)
		}
	}
}

func TestJobsOfAnswersHaveSpecifications(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jobs":[{}]}`) })
	if j, err := c.GetJob(t.Context(), "train"); err != nil || j.Spec == nil {
		t.Errorf("a job: %+v, %v", j, err)
	}
	if list, err := c.ListJobs(t.Context()); err != nil || len(list) != 1 || list[0].Spec == nil {
		t.Errorf("jobs: %+v, %v", list, err)
	}
}

// TestNamedEventsAreIgnored checks that events with a name, as of later schedulers, are ignored.
func TestNamedEventsAreIgnored(t *testing.T) {
	c := newTestClient(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "event: inventory\ndata: {}\n\nid: e-1\ndata: {\"task\":\"t.0\",\"state\":\"RUNNING\"}\n\n"+
			"event: other\nid: e-2\ndata: no JSON\ndata: of ours\n\ndata: {\"task\":\"t.1\",\"state\":\"RUNNING\"}\n\n")
	})
	var got []string
	for ev, err := range c.StreamEvents(t.Context(), "") {
		if err != nil {
			got = append(got, err.Error())
			break
		}
		got = append(got, ev.Task)
	}
	if want := "t.0 t.1 read events: unexpected EOF"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWaitSurvivesBrokenStream breaks the first stream; the second one reports the end.
func TestWaitSurvivesBrokenStream(t *testing.T) {
	var streams atomic.Int32
	var ended atomic.Bool
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/events":
			fmt.Fprintf(w, "data: {\"job\":\"train\",\"task\":\"t.0\",\"state\":\"RUNNING\"}\n\n")
			if streams.Add(1) == 2 {
				_ = http.NewResponseController(w).Flush()
				ended.Store(true)
				fmt.Fprintf(w, ": alive\n\ndata: {\"job\":\"train\",\"task\":\"t.0\",\"state\":\"FINISHED\"}\n\n")
			}
		case "/v1/jobs/train":
			state := "RUNNING"
			if ended.Load() {
				state = "FINISHED"
			}
			fmt.Fprintf(w, `{"spec":{"name":"train"},"tasks":[{"id":"t.0","state":%q}],"state":%q,"terminal":%t}`, state, state, ended.Load())
		}
	})
	view, err := c.WaitForJob(context.Background(), "train")
	if err != nil || view.State != job.Finished || streams.Load() != 2 {
		t.Errorf("%s after %d streams, %v", view.State, streams.Load(), err)
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	c := newTestClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/events" {
			_ = http.NewResponseController(w).Flush()
			cancel()
			<-r.Context().Done()
		}
	})
	if _, err := c.WaitForJob(ctx, "train"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "ftp://x", "http://"} {
		if _, err := New(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	for _, good := range []string{"127.0.0.1:8080", "https://sched.example/"} {
		if _, err := New(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

// A socket without a listener is named in the error.
func TestSocketWithoutListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "api.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	c, err := New("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	var none *NoListenerError
	if _, err := c.ListJobs(t.Context()); !errors.As(err, &none) || !strings.Contains(err.Error(), "no scheduler listens at unix://"+path) {
		t.Errorf("got %v", err)
	}
}

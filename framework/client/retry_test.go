package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// unusedAddress returns an address without a listener, which no other test uses.
func unusedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.79:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func newTestClients(t *testing.T, addresses ...string) *Client {
	t.Helper()
	c, err := New(strings.Join(addresses, ", "))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func writeProblem(w http.ResponseWriter, p *api.Problem) {
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p)
}

// A submission reaches the leader: it skips a scheduler that is down, follows the redirect of a
// standby with method and body, and waits while there is no leader.
func TestSubmissionFindsLeader(t *testing.T) {
	var asked, submitted atomic.Int32
	leader := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var spec job.Spec
		if err := json.NewDecoder(r.Body).Decode(&spec); err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/jobs" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		submitted.Add(1)
		fmt.Fprintf(w, `{"spec":{"name":%q}}`, spec.Name)
	})
	standby := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			writeProblem(w, api.NewUnavailable("no leader"))
			return
		}
		w.Header().Set("Location", leader+r.URL.RequestURI())
		writeProblem(w, api.RedirectToLeader(leader))
	})
	c := newTestClients(t, unusedAddress(t), standby)
	view, err := c.SubmitJob(context.Background(), job.Spec{Name: "train"})
	if err != nil || view.Spec.Name != "train" || submitted.Load() != 1 {
		t.Errorf("%+v, %v, %d submissions", *view.Spec, err, submitted.Load())
	}
}

// A request without a key that may have been executed is not retried; a read is.
func TestOnlySafeRequestsAreRepeated(t *testing.T) {
	var posts, gets atomic.Int32
	breaks := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
		}
		panic(http.ErrAbortHandler)
	})
	works := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
		}
		gets.Add(1)
		fmt.Fprint(w, `{"jobs":[]}`)
	})
	c := newTestClients(t, breaks, works)
	if err := c.StopTask(context.Background(), "train.0", false); err == nil || posts.Load() != 1 {
		t.Errorf("%d requests, %v", posts.Load(), err)
	}
	if _, err := c.ListJobs(context.Background()); err != nil || gets.Load() != 1 {
		t.Errorf("%d answers, %v", gets.Load(), err)
	}
	down := newTestClients(t, unusedAddress(t), unusedAddress(t))
	if _, err := down.ListJobs(context.Background()); err == nil || !strings.Contains(err.Error(), "no scheduler listens at "+strings.Join(down.baseURLs, ", ")) {
		t.Errorf("all down: %v", err)
	}
	lost := newTestClients(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, api.NewProblemf(http.StatusServiceUnavailable, "unknown"))
	}))
	if err := lost.StopTask(context.Background(), "train.0", false); err == nil || IsTemporary(err) == false || isRetryable(err) {
		t.Errorf("not known whether it was done: %v", err)
	}
}

// writeTaskEvent writes an event of task t.0 to a stream.
func writeTaskEvent(t *testing.T, w io.Writer, state job.State, second int64) {
	text, err := json.Marshal(api.TaskEvent{Job: "train", Task: "t.0", State: state, Time: time.Unix(second, 0)})
	if err != nil {
		t.Error(err)
	}
	fmt.Fprintf(w, "data: %s\n\n", text)
}

// A broken stream resumes at another scheduler. Each state is returned once, and outdated
// states of a standby are not.
func TestFollowedEventsResume(t *testing.T) {
	var streams atomic.Int32
	first := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if streams.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
		writeTaskEvent(t, w, job.Waiting, 1)
		writeTaskEvent(t, w, job.Running, 2)
	})
	second := serve(t, func(w http.ResponseWriter, r *http.Request) {
		writeTaskEvent(t, w, job.Waiting, 1)
		writeTaskEvent(t, w, job.Running, 2)
		writeTaskEvent(t, w, job.Finished, 3)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var states []job.State
	for ev, err := range newTestClients(t, first, second).FollowEvents(ctx, "train") {
		if err != nil {
			t.Fatal(err)
		}
		if states = append(states, ev.State); ev.State == job.Finished {
			break
		}
	}
	if diff := cmp.Diff([]job.State{job.Waiting, job.Running, job.Finished}, states); diff != "" {
		t.Error(diff)
	}
}

// A scheduler's clock may be set back, before or after the stream breaks: the states that
// follow are returned nevertheless.
func TestFollowedEventsDoNotDependOnClock(t *testing.T) {
	var streams atomic.Int32
	c := newTestClients(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if streams.Add(1) == 1 {
			writeTaskEvent(t, w, job.Waiting, 900)
			writeTaskEvent(t, w, job.Launching, 500)
			return
		}
		writeTaskEvent(t, w, job.Running, 200)
		writeTaskEvent(t, w, job.Finished, 100)
	}))
	var states []job.State
	for ev, err := range c.FollowEvents(t.Context(), "train") {
		if err != nil {
			t.Fatal(err)
		}
		if states = append(states, ev.State); ev.State == job.Finished {
			break
		}
	}
	if diff := cmp.Diff([]job.State{job.Waiting, job.Launching, job.Running, job.Finished}, states); diff != "" {
		t.Error(diff)
	}
}

func TestFollowEndsOnPermanentError(t *testing.T) {
	c := newTestClients(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, api.NewProblemf(http.StatusNotFound, "no job"))
	}))
	if _, err := c.WaitForJob(context.Background(), "train"); err == nil || err.Error() != "no job" {
		t.Errorf("got %v", err)
	}
}

// Output that breaks resumes after the last part; complete output ends.
func TestFollowedOutputResumes(t *testing.T) {
	lines := []string{"one\n", "two\n", "three\n"}
	var asked atomic.Int32
	c := newTestClients(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		var from int
		if after := r.URL.Query().Get("after"); after != "" {
			if _, err := fmt.Sscanf(after, "%d,0", &from); err != nil {
				t.Error(err)
			}
		}
		encoder := json.NewEncoder(w)
		write := func(i int) {
			if err := encoder.Encode(api.OutputPart{Stream: "stdout", Text: lines[i], After: fmt.Sprintf("%d,0", i+1)}); err != nil {
				t.Error(err)
			}
		}
		switch asked.Add(1) {
		case 1: // aborted
			write(from)
			fmt.Fprint(w, `{"stream":"stdout","te`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case 2: // ends too early, as when a scheduler stops
			write(from)
		case 3:
			writeProblem(w, api.NewUnavailable("no leader"))
		default:
			write(from)
			_ = encoder.Encode(api.OutputPart{Complete: true, After: "3,0"})
		}
	}))
	if got, lost := readOutput(t, c, OutputOptions{Follow: true}); got != "one\ntwo\nthree\n" || lost > 0 || asked.Load() != 4 {
		t.Errorf("%q after %d requests, lost %d times", got, asked.Load(), lost)
	}
}

// TestFollowTimesOut checks that following ends after Timeouts.Follow without a response.
func TestFollowTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New("http://x", WithTimeouts(Timeouts{Follow: time.Hour}))
		if err != nil {
			t.Fatal(err)
		}
		c.http.Transport = refusingTransport{}
		began := time.Now()
		_, err = c.WaitForJob(context.Background(), "train")
		if took := time.Since(began); err == nil || took < time.Hour || took > 2*time.Hour {
			t.Errorf("after %s: %v", took, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := c.WaitForJob(ctx, "train"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

type refusingTransport struct{}

func (refusingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
}

// TestWaitIgnoresRetriedAttempts checks that WaitForJob does not wait for the end of an attempt
// that was lost while no scheduler responded, but for the next attempt.
func TestWaitIgnoresRetriedAttempts(t *testing.T) {
	event := func(w io.Writer, task string, state job.State) {
		text, err := json.Marshal(api.TaskEvent{Job: "train", Task: task, State: state})
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
	}
	var streams atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/v1/events"):
			_ = json.NewEncoder(w).Encode(api.JobView{Terminal: true, State: job.Finished})
		case streams.Add(1) == 1:
			event(w, "train.0.1.x", job.Running)
			event(w, "train.1.1.x", job.Running)
		default:
			event(w, "train.0.2.x", job.Finished)
			event(w, "train.1.1.x", job.Finished)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	view, err := newTestClients(t, url).WaitForJob(ctx, "train")
	if err != nil || view.State != job.Finished {
		t.Errorf("got %s, %v", view.State, err)
	}
}

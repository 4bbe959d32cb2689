package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// limitedRequests is a handler whose requests last until the test ends them.
type limitedRequests struct {
	handler http.Handler
	ended   chan struct{}
	running sync.WaitGroup
}

func newLimitedRequests(limits RequestLimits) *limitedRequests {
	l := &limitedRequests{ended: make(chan struct{})}
	l.handler = LimitRequests(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-l.ended }), limits, discardLogger())
	return l
}

// start sends a request of a client, an address or a user, and returns its answer once it has one.
func (l *limitedRequests) start(client, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if r.RemoteAddr = client + ":1234"; !strings.Contains(client, ".") && !strings.Contains(client, ":") {
		r.RemoteAddr = "10.9.9.9:1"
		r = r.WithContext(apihttp.WithGrant(r.Context(), (&access.AccessPolicy{}).GrantFor(access.Identity{Name: client})))
	}
	w := httptest.NewRecorder()
	w.Code = 0 // no answer yet
	l.running.Go(func() { l.handler.ServeHTTP(w, r) })
	synctest.Wait()
	return w
}

func (l *limitedRequests) end() {
	close(l.ended)
	l.running.Wait()
}

func wantRejection(t *testing.T, w *httptest.ResponseRecorder, status int, code api.ProblemCode) {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != status || p.Code != code || !p.Retryable || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %s, Retry-After %q, want %d %s", w.Code, w.Body, w.Header().Get("Retry-After"), status, code)
	}
}

// TestStreamsAreLimited checks that streams of one client, and of all together, are rejected at
// once above their limits, and that a client at its limit does not affect others.
func TestStreamsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimitedRequests(RequestLimits{Streams: 8, Lists: 4, Requests: 8, ClientPercent: 25})
		defer l.end()
		for _, path := range []string{"/v1/events?job=x", "/v1/tasks/x.0/log"} {
			if w := l.start("alice", path); w.Code != 0 {
				t.Fatalf("%s below the limit: %d", path, w.Code)
			}
		}
		wantRejection(t, l.start("alice", "/v2/events"), http.StatusTooManyRequests, api.CodeTooManyStreams)
		for i := range 6 {
			if w := l.start(fmt.Sprintf("10.0.0.%d", i/2), "/v1/events"); w.Code != 0 {
				t.Fatalf("stream %d of others: %d", i, w.Code)
			}
		}
		wantRejection(t, l.start("10.0.0.7", "/v1/events"), http.StatusServiceUnavailable, api.CodeTooManyStreams)
		if w := l.start("alice", "/v1/jobs/x"); w.Code != 0 {
			t.Errorf("a request that is no stream: %d", w.Code)
		}
	})
}

// TestRequestsWaitForTheirTurn checks that lists and other requests above a limit wait, that
// places go to the request that has waited longest and whose client is below its limit, and that
// those that wait too long are rejected.
func TestRequestsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLimitedResource(listsResource, 2, 1, limitWait, ignoreUsage{})
		releaseA, err := r.acquire(t.Context(), "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 3)
		queue := func(client string) {
			go func() {
				if release, err := r.acquire(context.Background(), client, 1); err == nil {
					got <- client
					release()
				} else {
					got <- client + ": " + err.Error()
				}
			}()
			synctest.Wait()
		}
		queue("a")
		queue("b") // below its limit, so it does not wait for a
		if client := <-got; client != "b" {
			t.Errorf("first was %s", client)
		}
		if _, err := r.acquire(t.Context(), "a", 1); err == nil || !strings.Contains(err.Error(), "1 of at most 1 lists of this client") {
			t.Errorf("more requests wait than may be served: %v", err)
		}
		releaseA()
		if client := <-got; client != "a" {
			t.Errorf("second was %s", client)
		}
		synctest.Wait() // both have released their places
		if len(r.clients) != 0 || r.used != 0 {
			t.Errorf("%d places are in use by %d clients", r.used, len(r.clients))
		}
		release, err := r.acquire(t.Context(), "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		queue("a")
		time.Sleep(limitWait)
		synctest.Wait()
		if text := <-got; !strings.Contains(text, "of this client are open") {
			t.Errorf("got %s", text)
		}
	})
}

// TestRequestKinds checks which limit a request counts for. Health checks have their own, so that
// a busy scheduler is not taken for a dead one, and commands in containers are not counted.
func TestRequestKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := &usageRecorder{used: map[string]int{}}
		l := newLimitedRequests(RequestLimits{Streams: 100, Lists: 100, Requests: 100, ClientPercent: 100, Usage: used})
		for _, path := range []string{
			"/v1/jobs", "/v1/queue", "/v1/gpus", "/v1/agents", "/v1/usage", "/v1/roles", "/v1/schedules", "/v1/demand", "/metrics", "/v1/events", "/v1/tasks/x/log",
			"/v1/jobs/x", "/v1/jobs/exec", "/", "/healthz", "/readyz", "/ping", "/v1/openapi.yaml", "/v1/jobs/x/tasks/0/exec", "/v2/apps",
		} {
			l.start("10.0.0.1", path)
		}
		want := map[string]int{listsResource: 9 + bufferedListCost, streamsResource: 2, requestsResource: 4, probesResource: 3}
		for resource, n := range want {
			if used.used[resource] != n {
				t.Errorf("%s: %d, want %d", resource, used.used[resource], n)
			}
		}
		l.end()
		for resource, n := range used.used {
			if n != 0 {
				t.Errorf("%s: %d remain", resource, n)
			}
		}
	})
}

// TestAnonymousRequestsDoNotDelayUsers checks that requests without a user, where users are known,
// occupy no places of users and of health checks, whatever their number and their addresses.
func TestAnonymousRequestsDoNotDelayUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimitedRequests(RequestLimits{Streams: 1, Lists: 1, Requests: 1, ClientPercent: 100})
		paths := []string{"/", "/v1/jobs", "/metrics", "/v1/events", "/v1/openapi.yaml"}
		for i := range 3 * maxAnonymous {
			l.start("", paths[i%len(paths)])
		}
		for _, path := range []string{"/v1/jobs/x", "/v1/jobs", "/v1/events", "/healthz"} {
			if w := l.start("alice", path); w.Code != 0 {
				t.Errorf("%s is rejected: %d", path, w.Code)
			}
		}
		l.end()
	})
}

// TestHealthChecksOfOneAddressDoNotStopOthers checks that one address cannot make the health checks
// of others fail.
func TestHealthChecksOfOneAddressDoNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimitedRequests(RequestLimits{Streams: 1, Lists: 1, Requests: 1, ClientPercent: 25})
		defer l.end()
		for range maxProbes {
			l.start("10.0.0.1", "/readyz")
		}
		if w := l.start("10.0.0.2", "/healthz"); w.Code != 0 {
			t.Errorf("a health check from another address: %d", w.Code)
		}
	})
}

// TestRequestIsServedWhenPlacesAreFree checks that a request finds its place although as many others
// as may wait do so for more places than their clients have left.
func TestRequestIsServedWhenPlacesAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLimitedResource(listsResource, 4, 2, limitWait, ignoreUsage{})
		var releases []func()
		for _, client := range []string{"a", "b"} {
			release, err := r.acquire(t.Context(), client, 1)
			if err != nil {
				t.Fatal(err)
			}
			releases = append(releases, release)
			for range 2 {
				go func() {
					if release, err := r.acquire(context.Background(), client, 2); err == nil {
						release()
					}
				}()
			}
		}
		synctest.Wait()
		release, err := r.acquire(t.Context(), "c", 1)
		if err != nil {
			t.Errorf("%d places of 4 are in use: %v", r.used, err)
		} else {
			release()
		}
		for _, release := range releases {
			release()
		}
	})
}

// usageRecorder records what is used of each limit.
type usageRecorder struct {
	mu   sync.Mutex
	used map[string]int
}

func (u *usageRecorder) SetAPILimit(string, int) {}

func (u *usageRecorder) SetAPIUse(resource string, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.used[resource] = n
}

func (u *usageRecorder) CountAPIRejection(string, string) {}

// pagedBackend has one job with many tasks among others, and records how much is read at a time.
type pagedBackend struct {
	*fakeBackend
	tasks, most int
}

func (b *pagedBackend) allTasks() []job.Task {
	list := make([]job.Task, b.tasks)
	for i := range list {
		list[i] = job.Task{ID: fmt.Sprintf("big.%d", i), Job: "big", Index: i}
	}
	return list
}

func (b *pagedBackend) bigJob() api.JobView {
	v := api.NewJobView(&job.Job{Spec: &job.Spec{Name: "big", Tasks: b.tasks}, Submitted: time.Unix(1, 0), Tasks: b.allTasks()}, "")
	v.Tasks, v.OmittedTasks = v.Tasks[:10], b.tasks-10
	return v
}

func (b *pagedBackend) GetJob(context.Context, string) (api.JobView, error) { return b.bigJob(), nil }

func (b *pagedBackend) ListJobs(_ context.Context, q request.JobQuery) (list api.JobList, err error) {
	at := 0
	if q.After != "" {
		at = int(q.After[0] - 'a')
	}
	names := []string{"a", "big", "c", "d"}
	list.Jobs = []api.JobView{{Job: job.Job{Spec: &job.Spec{Name: names[at]}, Tasks: []job.Task{}}}}
	if names[at] == "big" {
		list.Jobs[0] = b.bigJob()
	}
	if at+1 < len(names) {
		list.Next = string(rune('a' + at + 1))
	}
	return list, nil
}

func (b *pagedBackend) ListTasks(_ context.Context, name string, submitted time.Time, from, limit int) ([]job.Task, error) {
	if name != "big@1" || !submitted.Equal(time.Unix(1, 0)) || from >= b.tasks {
		return nil, nil
	}
	b.most = max(b.most, limit)
	return b.allTasks()[from:min(from+limit, b.tasks)], nil
}

// TestListsAreReadInParts checks that a list consists of all pages of the backend, and each job of
// all its tasks, and that only a part is read at a time. A limit of the client applies to the
// whole.
func TestListsAreReadInParts(t *testing.T) {
	b := &pagedBackend{fakeBackend: &fakeBackend{}, tasks: 2*tasksPerRead + 17}
	s := httptest.NewServer(NewHandler(func() Backend { return newLeaderBackend(b) }, discardLogger()))
	defer s.Close()
	get := func(path string, into any) {
		t.Helper()
		status, _, body := sendRequest(t, http.MethodGet, s.URL+path, "")
		if err := json.Unmarshal([]byte(body), into); status != http.StatusOK || err != nil {
			t.Fatalf("%s: %d %.200s, %v", path, status, body, err)
		}
	}
	wantAll := func(view *api.JobView) {
		t.Helper()
		for i := range view.Tasks {
			if view.Tasks[i].Index != i {
				t.Fatalf("task %d is at %d", view.Tasks[i].Index, i)
			}
		}
		if len(view.Tasks) != b.tasks || view.Spec.Tasks != b.tasks {
			t.Errorf("%d tasks of %d, spec %d", len(view.Tasks), b.tasks, view.Spec.Tasks)
		}
	}
	var all, two api.JobList
	get("/v1/jobs", &all)
	if len(all.Jobs) != 4 || all.Next != "" {
		t.Fatalf("%d jobs, next %q", len(all.Jobs), all.Next)
	}
	wantAll(&all.Jobs[1])
	get("/v1/jobs?limit=2", &two)
	if len(two.Jobs) != 2 || two.Next != "c" {
		t.Errorf("%d jobs, next %q", len(two.Jobs), two.Next)
	}
	var one api.JobView
	get("/v1/jobs/big", &one)
	wantAll(&one)
	if b.most != tasksPerRead {
		t.Errorf("%d tasks were read at a time, want %d", b.most, tasksPerRead)
	}
}

// TestCommandsInContainersAreLimited checks that one client cannot use all sessions, and that a job
// named like the end of such a request is an ordinary one.
func TestCommandsInContainersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimitedRequests(RequestLimits{Streams: 1, Lists: 1, Requests: 1, Sessions: 4, ClientPercent: 50})
		defer l.end()
		const path = "/v1/jobs/x/tasks/0/exec?argv=sh"
		for range 2 {
			if w := l.start("alice", path); w.Code != 0 {
				t.Fatalf("below the limit: %d", w.Code)
			}
		}
		wantRejection(t, l.start("alice", path), http.StatusTooManyRequests, api.CodeTooManySessions)
		for range 2 {
			if w := l.start("bob", path); w.Code != 0 {
				t.Fatalf("of another user: %d", w.Code)
			}
		}
		wantRejection(t, l.start("carol", path), http.StatusServiceUnavailable, api.CodeTooManySessions)
		if w := l.start("alice", "/v1/jobs/exec"); w.Code != 0 {
			t.Errorf("a job with the name exec: %d", w.Code)
		}
	})
}

// TestMissedEventsResetTheStream checks that a client whose events were overwritten gets a reset, to
// start again, after the events that it did not miss.
func TestMissedEventsResetTheStream(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "/v1/events", nil)
	got := string(appendBatch(r, &ReadBackend{Jobs: &fakeBackend{}}, nil, &request.EventBatch{
		Events: []api.TaskEvent{{Job: "a", Task: "a.0", ID: "e-1"}},
		Missed: true,
	}))
	if !strings.HasPrefix(got, "id: e-1\ndata: {") || !strings.HasSuffix(got, "\n\nevent: reset\ndata: {}\n\n") {
		t.Errorf("got %q", got)
	}
}

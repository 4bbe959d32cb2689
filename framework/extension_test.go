package framework

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/leader"
	"mesos-gpu/internal/testing/backendtest"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// awaitCount waits until that many tasks of the job are in that state, not counting the
// tasks in others.
func awaitCount(t *testing.T, in *testInstance, name string, want job.State, n int, others ...string) api.JobView {
	t.Helper()
	ctx := frameworktest.Timeout(t)
	for _, err := range in.StreamEvents(ctx, name) {
		if err != nil {
			t.Fatal(err)
		}
		view, err := in.GetJob(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for i := range view.Tasks {
			if view.Tasks[i].State == want && !slices.Contains(others, view.Tasks[i].ID) {
				got++
			}
		}
		if got == n {
			return view
		}
	}
	t.Fatalf("%s never had %d tasks %s", name, n, want)
	return api.JobView{}
}

// TestServiceKeepsTasksRunning: a service's tasks keep running after a failure, a stop, a
// scaling and a restart of the scheduler, until the service is killed.
func TestServiceKeepsTasksRunning(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.ServiceSpec("web", 2)); err != nil {
		t.Fatal(err)
	}
	first := awaitCount(t, in, "web", job.Running, 2).Tasks[0].ID
	c.EndTask(first, mesos.TASK_FAILED, "exited with status 1", "1")
	if again := awaitCount(t, in, "web", job.Running, 2, first).Tasks[0]; again.ID == first || again.Attempt != 2 {
		t.Errorf("after a failure runs %s, attempt %d", again.ID, again.Attempt)
	}
	if err := in.ScaleJob(ctx, "web", 3); err != nil {
		t.Fatal(err)
	}
	third := awaitCount(t, in, "web", job.Running, 3).Tasks[2].ID
	in.stopAndWait(t)

	in = startWithJournal(t, c, path)
	if got := awaitCount(t, in, "web", job.Running, 3).Tasks[2].ID; got != third {
		t.Errorf("after a restart task %s runs, want %s as before", got, third)
	}
	if err := in.StopTask(ctx, third, false); err != nil {
		t.Fatal(err)
	}
	c.EndTask(third, mesos.TASK_KILLED, "", "")
	awaitCount(t, in, "web", job.Running, 3, third)
	if err := in.ScaleJob(ctx, "web", 0); err != nil {
		t.Fatal(err)
	}
	for _, id := range c.RunningTasks() {
		c.EndTask(id, mesos.TASK_KILLED, "", "")
	}
	if view := awaitCount(t, in, "web", job.Killed, 3); view.Terminal {
		t.Error("a service that wants no task has ended")
	}
	if err := in.KillJob(ctx, "web"); err != nil {
		t.Fatal(err)
	}
	if view, err := in.WaitForJob(ctx, "web"); err != nil || !view.Terminal {
		t.Errorf("after the kill: %+v, %v", view.State, err)
	}
	wantProblem(t, in.ScaleJob(ctx, "unknown", 1), http.StatusNotFound, `no job "unknown"`)
	wantProblem(t, in.ScaleJob(ctx, "web", 1), http.StatusUnprocessableEntity, "has ended")
	wantProblem(t, in.StopTask(ctx, third, false), http.StatusNotFound, "no task")
}

// testExtension answers requests with data from its handle.
type testExtension struct{ led chan *leader.ExtensionHandle }

func (e *testExtension) Paths() []string { return []string{"/v2"} }

func (e *testExtension) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s answered", r.URL.Path)
}

func (e *testExtension) Lead(ctx context.Context, c *leader.ExtensionHandle) error {
	select {
	case e.led <- c:
	case <-ctx.Done(): // the test has ended
	}
	<-ctx.Done()
	for { // an extension answers requests of clients until the scheduler rejects them
		if _, _, _, err := c.DescribeScheduler(context.Background()); err != nil {
			return nil
		}
	}
}

func fetchText(t testing.TB, in *testInstance, path string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + in.addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// TestExtensionPathPrefixes: the extension serves everything below its paths, with the
// request's path unchanged, but not paths that only share the prefix of a name.
func TestExtensionPathPrefixes(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	e := &testExtension{led: make(chan *leader.ExtensionHandle, 1)}
	in := startInstance(t, c, SchedulerConfig{Extension: e})
	<-e.led
	for _, path := range []string{"/v2", "/v2/", "/v2/apps//group/web"} {
		if code, body := fetchText(t, in, path); code != http.StatusOK || body != path+" answered" {
			t.Errorf("%s: got %d %q", path, code, body)
		}
	}
	if code, _ := fetchText(t, in, "/v22"); code != http.StatusNotFound {
		t.Errorf("/v22: got %d, want 404", code)
	}
}

// TestExtensionRunsJobsAndKeepsDocuments: an extension's jobs and documents survive a restart.
func TestExtensionRunsJobsAndKeepsDocuments(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	path := filepath.Join(t.TempDir(), "journal.db")
	e := &testExtension{led: make(chan *leader.ExtensionHandle, 1)}
	in := startInstance(t, c, SchedulerConfig{JournalPath: path, Extension: e})
	ctx, cluster := frameworktest.Timeout(t), <-e.led
	if err := cluster.SubmitJobs(ctx, frameworktest.ServiceSpec("a", 1), frameworktest.ServiceSpec("b", 1)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.SubmitJobs(ctx, frameworktest.ServiceSpec("c", 1), frameworktest.ServiceSpec("a", 1)); err == nil ||
		!strings.Contains(err.Error(), `job "a" is`) {
		t.Errorf("got %v", err)
	}
	if _, ok := cluster.FindJob("c"); ok {
		t.Error("half of what was submitted was taken")
	}
	names := map[string]bool{}
	for len(names) < 2 {
		if err := cluster.WaitForChange(ctx); err != nil {
			t.Fatal(err)
		}
		changed, _ := cluster.TakeChanges()
		for n := range changed {
			names[n] = true
		}
	}
	b := awaitState(t, in, "b", job.Running)
	if err := cluster.ScaleJob(ctx, "a", 2, "ada"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.StopTasks(ctx, []string{b.Tasks[0].ID, "stranger"}, true, "bob"); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, in, "b", job.Killed, 1)
	for name, want := range map[string]string{"a": "scaled from 1 to 2 tasks by ada", "b": "scaled from 1 to 0 tasks by bob"} {
		if j, _ := cluster.FindJob(name); len(j.Changes) != 1 || j.Changes[0].Message() != want {
			t.Errorf("job %s has the changes %+v, want %s", name, j.Changes, want)
		}
	}
	if err := cluster.PutDocuments(ctx, map[string][]byte{"app": []byte("definition"), "gone": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.PutDocuments(ctx, map[string][]byte{"big": make([]byte, 2<<20)}); err == nil {
		t.Error("a document of 2 MiB was taken")
	}
	if err := cluster.PutDocuments(ctx, map[string][]byte{"gone": nil, "": []byte("x")}); err == nil {
		t.Error("a document without a key was taken")
	}
	if err := cluster.PutDocuments(ctx, map[string][]byte{"scheduler/cordon/host-1": []byte("{}")}); err == nil ||
		!strings.Contains(err.Error(), "the scheduler keeps its own below scheduler/") {
		t.Errorf("a document in the scheduler's own place: %v", err)
	}
	if err := in.CordonAgent(ctx, "host-1", "none of the extension's documents"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.PutDocuments(ctx, map[string][]byte{"gone": nil}); err != nil {
		t.Fatal(err)
	}
	if status, body := fetchText(t, in, "/v2/apps"); status != 200 || body != "/v2/apps answered" {
		t.Errorf("got %d %s", status, body)
	}
	in.stopAndWait(t)

	in = startInstance(t, c, SchedulerConfig{JournalPath: path, Extension: e})
	cluster = <-e.led
	all, err := cluster.LoadDocuments(ctx)
	if err != nil || len(all) != 1 || string(all["app"]) != "definition" {
		t.Errorf("documents %q, %v", all, err)
	}
	if err := cluster.WaitForChange(ctx); err != nil {
		t.Fatal(err)
	}
	changed, _ := cluster.TakeChanges()
	if names := slices.Sorted(maps.Keys(changed)); !slices.Equal(names, []string{"a@1", "b@1"}) {
		t.Errorf("jobs that were there: %v", names)
	}
	if a, ok := cluster.FindJob("a"); !ok || len(a.Tasks) != 2 {
		t.Errorf("job a: %+v", a)
	}
	if err := cluster.KillJobs(ctx, "eve", "a", "b"); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, in, "a", job.Killed, 2)
	in.stopAndWait(t)
}

// awaitLeading returns the handle of the extension that leads next.
func (e *testExtension) awaitLeading(t *testing.T) *leader.ExtensionHandle {
	t.Helper()
	select {
	case c := <-e.led:
		return c
	case <-longTimeout(t).Done():
		t.Fatal("no extension leads")
		return nil
	}
}

// TestStandbyForwardsExtensionRequests: the leader's extension answers requests to a
// standby, also after the leader gave up its leadership.
func TestStandbyForwardsExtensionRequests(t *testing.T) {
	c, server := mesostest.NewCluster(t, 1), zktest.StartServer(t)
	extended := func() (*testInstance, *testExtension) {
		e := &testExtension{led: make(chan *leader.ExtensionHandle)}
		return startInstance(t, c, SchedulerConfig{JournalPath: "zk://" + server.Addr() + "/mesos-gpu/test", SessionTimeout: lasting, Extension: e}), e
	}
	first, its := extended()
	leading := its.awaitLeading(t)
	awaitRole(t, first, api.Leader)
	second, next := extended()
	awaitRole(t, second, api.Standby)
	if status, body := fetchText(t, second, "/v2/apps?x=1"); status != 200 || body != "/v2/apps answered" {
		t.Errorf("through the standby: %d %s", status, body)
	}
	leading.AbdicateLeadership()
	next.awaitLeading(t)
	awaitRole(t, second, api.Leader)
	awaitRole(t, first, api.Standby)
	for _, in := range []*testInstance{first, second} {
		if status, _ := fetchText(t, in, "/v2/apps"); status != 200 {
			t.Errorf("after the takeover, %s: %d", in.addr, status)
		}
	}
	first.stopAndWait(t)
	second.stopAndWait(t)
}

// TestSchedulerWithFileJournalLeadsAgain: a scheduler with a journal in a file leads again
// after an abdication, with the tasks that run and the reasons why others wait.
func TestSchedulerWithFileJournalLeadsAgain(t *testing.T) {
	c, e := mesostest.NewCluster(t, 1), &testExtension{led: make(chan *leader.ExtensionHandle)}
	in := startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), Extension: e})
	ctx, cluster := frameworktest.Timeout(t), e.awaitLeading(t)
	large := frameworktest.ServiceSpec("large", 1)
	large.CPUs = 1000
	if err := cluster.SubmitJobs(ctx, frameworktest.ServiceSpec("web", 1), large); err != nil {
		t.Fatal(err)
	}
	id := awaitState(t, in, "web", job.Running).Tasks[0].ID
	cluster.AbdicateLeadership()
	cluster.AbdicateLeadership() // a repeated request changes nothing
	cluster = e.awaitLeading(t)
	awaitRole(t, in, api.Leader)
	if got := cluster.MasterURL(); got != c.URL() {
		t.Errorf("the master is %q, want %q", got, c.URL())
	}
	reasons, err := cluster.ExplainWaiting(ctx, "web", "large", "none")
	if err != nil || len(reasons) != 1 || !strings.Contains(reasons["large"].Text, "1000") {
		t.Errorf("reasons %v, %v, want that large needs 1000 CPUs", reasons, err)
	}
	for _, names := range [][]string{nil, {"none"}} {
		if of, err := cluster.ExplainWaiting(ctx, names...); err != nil || len(of) > 0 {
			t.Errorf("reasons of %q: %v, %v", names, of, err)
		}
	}
	if counts := reasons["large"].Exclusions; !slices.Contains(counts, job.ExclusionCount{Cause: job.ExcludedByCPUs, Agents: 1, Excluded: 1}) {
		t.Errorf("exclusions %+v, want that the agent has too few CPUs", counts)
	}
	if view, err := in.GetJob(ctx, "web"); err != nil || view.Tasks[0].ID != id || view.Tasks[0].State != job.Running {
		t.Errorf("after the abdication: %+v, %v, want %s running", view.Tasks, err, id)
	}
	in.stopAndWait(t)
}

// healthBackend is a backend with the URL of the leader, or with an error.
type healthBackend struct {
	backendtest.Reads
	leading string
	err     error
}

func (e healthBackend) GetHealth(context.Context) (api.HealthStatus, error) {
	return api.HealthStatus{LeaderURL: e.leading}, e.err
}

// TestExtensionWithoutLeader: answers to requests for the extension on a scheduler that does not lead.
func TestExtensionWithoutLeader(t *testing.T) {
	var marks []string
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		marks = append(marks, r.Header.Get(forwardedHeader))
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "%s %s answered", r.Method, r.URL.RequestURI())
	}))
	defer leader.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	const here = "http://here:1"
	for _, c := range []struct {
		name, leading, mark string
		err                 error
		status              int
		want                string
	}{
		{name: "passed on", leading: leader.URL, status: 200, want: "GET /v2/events?event_type=x answered"},
		{name: "no leader", status: 503, want: `{"message":"no scheduler leads now: ask again"}`},
		{name: "it leads next", leading: here, status: 503, want: `{"message":"this scheduler does not lead yet: ask again"}`},
		{name: "passed on already", leading: leader.URL, mark: "http://other:1", status: 503, want: "does not lead yet: ask again"},
		{name: "unknown", err: errors.New("no session with ZooKeeper"), status: 503, want: `{"message":"no session with ZooKeeper: ask again"}`},
		{name: "gone", leading: gone.URL, status: 503, want: "which leads: dial tcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Scheduler{cfg: SchedulerConfig{Extension: &testExtension{}}, url: here}
			s.setBackend(apiserver.Backend{Reads: &apiserver.ReadBackend{Status: healthBackend{leading: c.leading, err: c.err}}})
			r, w := httptest.NewRequest("GET", "/v2/events?event_type=x", nil), httptest.NewRecorder()
			if c.mark != "" {
				r.Header.Set(forwardedHeader, c.mark)
			}
			s.serveExtension(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, c.status, c.want)
			}
			if again := w.Header().Get("Retry-After"); (again == "1") != (c.status == 503) {
				t.Errorf("Retry-After is %q", again)
			}
		})
	}
	if !slices.Equal(marks, []string{here}) {
		t.Errorf("requests to the leader came from %q, want one from %s", marks, here)
	}
}

// TestForwardedResponsesAreStreamed: a standby forwards parts of a response as they arrive.
func TestForwardedResponsesAreStreamed(t *testing.T) {
	more := make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"first\n", "second\n"} {
			fmt.Fprint(w, part)
			w.(http.Flusher).Flush()
			<-more
		}
	}))
	defer leader.Close()
	s := &Scheduler{cfg: SchedulerConfig{Extension: &testExtension{}}}
	s.setBackend(apiserver.Backend{Reads: &apiserver.ReadBackend{Status: healthBackend{leading: leader.URL}}})
	standby := httptest.NewUnstartedServer(http.HandlerFunc(s.serveExtension))
	standby.Config.WriteTimeout = time.Second // streams extend their deadline
	standby.Start()
	defer standby.Close()
	answer, err := http.Get(standby.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	began, lines := time.Now(), bufio.NewReader(answer.Body)
	for _, want := range []string{"first\n", "second\n"} {
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
		<-time.After(time.Until(began.Add(2 * standby.Config.WriteTimeout)))
		more <- struct{}{}
	}
}

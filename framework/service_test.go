package framework

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/internal/zktest"
	"mesos-gpu/job"
)

func service(name string, tasks int) job.Spec {
	s := spec(name, tasks, 0)
	s.Service = &job.Service{}
	s.SetDefaults()
	return s
}

// awaitCount waits until that many tasks of the job are in that state, none of
// them one of the others.
func awaitCount(t *testing.T, in *instance, name string, want job.State, n int, others ...string) api.JobView {
	t.Helper()
	ctx := within(t)
	for _, err := range in.Events(ctx, name) {
		if err != nil {
			t.Fatal(err)
		}
		view, err := in.Job(ctx, name)
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

// TestService: its tasks are kept running, over a failure, a stop, a scale and
// a restart of the scheduler, until it is killed.
func TestService(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := run(t, c, path)
	ctx := within(t)
	if _, err := in.Submit(ctx, service("web", 2)); err != nil {
		t.Fatal(err)
	}
	first := awaitCount(t, in, "web", job.Running, 2).Tasks[0].ID
	c.End(first, mesos.TASK_FAILED, "exited with status 1", "1")
	if again := awaitCount(t, in, "web", job.Running, 2, first).Tasks[0]; again.ID == first || again.Attempt != 2 {
		t.Errorf("after a failure runs %s, attempt %d", again.ID, again.Attempt)
	}
	if err := in.Scale(ctx, "web", 3); err != nil {
		t.Fatal(err)
	}
	third := awaitCount(t, in, "web", job.Running, 3).Tasks[2].ID
	in.end(t)

	in = run(t, c, path)
	if got := awaitCount(t, in, "web", job.Running, 3).Tasks[2].ID; got != third {
		t.Errorf("after a restart runs %s, want %s still", got, third)
	}
	if err := in.Stop(ctx, third, false); err != nil {
		t.Fatal(err)
	}
	c.End(third, mesos.TASK_KILLED, "", "")
	awaitCount(t, in, "web", job.Running, 3, third)
	if err := in.Scale(ctx, "web", 0); err != nil {
		t.Fatal(err)
	}
	for _, id := range c.Running() {
		c.End(id, mesos.TASK_KILLED, "", "")
	}
	if view := awaitCount(t, in, "web", job.Killed, 3); view.Terminal {
		t.Error("a service that wants no task has ended")
	}
	if err := in.Kill(ctx, "web"); err != nil {
		t.Fatal(err)
	}
	if view, err := in.Wait(ctx, "web"); err != nil || !view.Terminal {
		t.Errorf("after the kill: %+v, %v", view.State, err)
	}
	wantProblem(t, in.Scale(ctx, "nobody", 1), http.StatusNotFound, `no job "nobody"`)
	wantProblem(t, in.Scale(ctx, "web", 1), http.StatusUnprocessableEntity, "has ended")
	wantProblem(t, in.Stop(ctx, third, false), http.StatusNotFound, "no task")
}

// extension answers with what it knows of its cluster.
type extension struct{ led chan *Cluster }

func (e *extension) Paths() []string { return []string{"/v2"} }

func (e *extension) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s answered", r.URL.Path)
}

func (e *extension) Lead(ctx context.Context, c *Cluster) error {
	select {
	case e.led <- c:
	case <-ctx.Done(): // nobody asks any more
	}
	<-ctx.Done()
	return nil
}

func fetch(t testing.TB, in *instance, path string) (int, string) {
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

// TestExtensionsPaths: what is below its paths is the extension's, as it was
// asked for; what only begins with the same letters is not.
func TestExtensionsPaths(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	e := &extension{led: make(chan *Cluster, 1)}
	in := start(t, c, Config{Extension: e})
	<-e.led
	for _, path := range []string{"/v2", "/v2/", "/v2/apps//group/web"} {
		if code, body := fetch(t, in, path); code != http.StatusOK || body != path+" answered" {
			t.Errorf("%s: got %d %q", path, code, body)
		}
	}
	if code, _ := fetch(t, in, "/v22"); code != http.StatusNotFound {
		t.Errorf("/v22: got %d, want 404", code)
	}
}

// TestExtension: it runs jobs and keeps documents, over a restart.
func TestExtension(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	path := filepath.Join(t.TempDir(), "journal.db")
	e := &extension{led: make(chan *Cluster, 1)}
	in := start(t, c, Config{JournalPath: path, Extension: e})
	ctx, cluster := within(t), <-e.led
	if err := cluster.Submit(ctx, service("a", 1), service("b", 1)); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Submit(ctx, service("c", 1), service("a", 1)); err == nil || !strings.Contains(err.Error(), `job "a" is`) {
		t.Errorf("got %v", err)
	}
	if _, ok := cluster.Job("c"); ok {
		t.Error("half of what was submitted was taken")
	}
	names := map[string]bool{}
	for len(names) < 2 {
		if err := cluster.Changed(ctx); err != nil {
			t.Fatal(err)
		}
		changed, _ := cluster.Take()
		for _, n := range changed {
			names[n] = true
		}
	}
	b := awaitState(t, in, "b", job.Running)
	if err := cluster.Scale(ctx, "a", 2); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Stop(ctx, []string{b.Tasks[0].ID, "stranger"}, true); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, in, "b", job.Killed, 1)
	if err := cluster.Put(ctx, map[string][]byte{"app": []byte("definition"), "gone": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Put(ctx, map[string][]byte{"big": make([]byte, 2<<20)}); err == nil {
		t.Error("a document of 2 MiB was taken")
	}
	if err := cluster.Put(ctx, map[string][]byte{"gone": nil, "": []byte("x")}); err == nil {
		t.Error("a document without a key was taken")
	}
	if err := cluster.Put(ctx, map[string][]byte{"scheduler/cordon/host-1": []byte("{}")}); err == nil || !strings.Contains(err.Error(), "the scheduler keeps its own below scheduler/") {
		t.Errorf("a document in the scheduler's own place: %v", err)
	}
	if err := in.Cordon(ctx, "host-1", "none of the extension's documents"); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Put(ctx, map[string][]byte{"gone": nil}); err != nil {
		t.Fatal(err)
	}
	if status, body := fetch(t, in, "/v2/apps"); status != 200 || body != "/v2/apps answered" {
		t.Errorf("got %d %s", status, body)
	}
	in.end(t)

	in = start(t, c, Config{JournalPath: path, Extension: e})
	cluster = <-e.led
	all, err := cluster.Documents(ctx)
	if err != nil || len(all) != 1 || string(all["app"]) != "definition" {
		t.Errorf("documents %q, %v", all, err)
	}
	if err := cluster.Changed(ctx); err != nil {
		t.Fatal(err)
	}
	changed, _ := cluster.Take()
	if slices.Sort(changed); !slices.Equal(changed, []string{"a", "b"}) {
		t.Errorf("jobs that were there: %v", changed)
	}
	if a, ok := cluster.Job("a"); !ok || len(a.Tasks) != 2 {
		t.Errorf("job a: %+v", a)
	}
	if err := cluster.Kill(ctx, "a", "b"); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, in, "a", job.Killed, 2)
	in.end(t)
}

// leading is the cluster of the extension that leads next.
func (e *extension) leading(t *testing.T) *Cluster {
	t.Helper()
	select {
	case c := <-e.led:
		return c
	case <-long(t).Done():
		t.Fatal("no extension leads")
		return nil
	}
}

// TestExtensionOfAStandby: the leader answers. That it leads no more when it has
// ended is for its own word.
func TestExtensionOfAStandby(t *testing.T) {
	c, server := mesostest.NewCluster(t, 1), zktest.Start(t)
	extended := func() (*instance, *extension) {
		e := &extension{led: make(chan *Cluster)}
		return start(t, c, Config{JournalPath: "zk://" + server.Addr() + "/mesos-gpu/test", SessionTimeout: lasting, Extension: e}), e
	}
	first, its := extended()
	its.leading(t)
	awaitRole(t, first, api.Leader)
	second, next := extended()
	awaitRole(t, second, api.Standby)
	if status, body := fetch(t, second, "/v2/apps?x=1"); status != 200 || body != "/v2/apps answered" {
		t.Errorf("through the standby: %d %s", status, body)
	}
	first.end(t)
	next.leading(t)
	awaitRole(t, second, api.Leader)
	if status, _ := fetch(t, second, "/v2/apps"); status != 200 {
		t.Errorf("after the takeover: %d", status)
	}
	second.end(t)
}

// elsewhere is a backend that knows who leads, or does not.
type elsewhere struct {
	api.Backend
	leading string
	err     error
}

func (e elsewhere) Health(context.Context) (api.Health, error) {
	return api.Health{Leading: e.leading}, e.err
}

// TestExtensionElsewhere: what the extension is asked where it does not lead.
func TestExtensionElsewhere(t *testing.T) {
	var marks []string
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		marks = append(marks, r.Header.Get(passedOn))
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
		{name: "nobody leads", status: 503, want: `{"message":"no scheduler leads now: ask again"}`},
		{name: "it leads next", leading: here, status: 503, want: `{"message":"this scheduler does not lead yet: ask again"}`},
		{name: "passed on already", leading: leader.URL, mark: "http://other:1", status: 503, want: "does not lead yet: ask again"},
		{name: "unknown", err: errors.New("no session with ZooKeeper"), status: 503, want: `{"message":"no session with ZooKeeper: ask again"}`},
		{name: "gone", leading: gone.URL, status: 503, want: "which leads: dial tcp"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &Scheduler{cfg: Config{Extension: &extension{}}, url: here}
			s.show(elsewhere{leading: c.leading, err: c.err})
			r, w := httptest.NewRequest("GET", "/v2/events?event_type=x", nil), httptest.NewRecorder()
			if c.mark != "" {
				r.Header.Set(passedOn, c.mark)
			}
			s.extended(w, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, c.status, c.want)
			}
			if again := w.Header().Get("Retry-After"); (again == "1") != (c.status == 503) {
				t.Errorf("Retry-After is %q", again)
			}
		})
	}
	if !slices.Equal(marks, []string{here}) {
		t.Errorf("the leader was asked by %q, want once by %s", marks, here)
	}
}

// TestExtensionStreams: a standby passes parts of an answer on as they come.
func TestExtensionStreams(t *testing.T) {
	more := make(chan struct{})
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, part := range []string{"first\n", "second\n"} {
			fmt.Fprint(w, part)
			w.(http.Flusher).Flush()
			<-more
		}
	}))
	defer leader.Close()
	s := &Scheduler{cfg: Config{Extension: &extension{}}}
	s.show(elsewhere{leading: leader.URL})
	standby := httptest.NewUnstartedServer(http.HandlerFunc(s.extended))
	standby.Config.WriteTimeout = time.Second // streams move theirs on
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

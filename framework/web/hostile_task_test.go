package web_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/internal/portrelay"
	"mesos-gpu/internal/testing/backendtest"
	"mesos-gpu/job"
)

// hostilePage is a page of a task that tries to use the API in the name of its reader.
const hostilePage = `<!doctype html><title>notebook</title>
<script>
document.cookie = "session=stolen";
fetch("/v1/jobs/train", {method: "DELETE"});
fetch("/v1/jobs");
</script>
<img src="/v1/jobs/image"><iframe src="/v1/jobs/frame"></iframe><link rel="stylesheet" href="/v1/jobs/style">
<meta http-equiv="refresh" content="0;url=/v1/jobs/refresh">
<body onload="document.forms[0].submit()"><form action="/v1/jobs/train/scale" method="post"></form>`

// hostileTask is the backend of a scheduler without an access file, with a running job that serves hostilePage.
type hostileTask struct {
	backendtest.Reads // the test calls only the methods below
	backendtest.Commands
	address string
}

func (hostileTask) AsOf() time.Time { return time.Time{} }

func (hostileTask) GetJob(context.Context, string) (api.JobView, error) {
	spec := job.Spec{Name: "train", Tasks: 1, Container: job.Container{Ports: []job.Port{{Name: "web"}}}}
	return api.NewJobView(&job.Job{Spec: new(spec), Tasks: []job.Task{{ID: "train.0", Job: "train", State: job.Running, Ports: []int{31000}}}}, ""), nil
}

func (hostileTask) TrackConnection(string) func() { return func() {} }

func (h hostileTask) OpenPort(context.Context, string, int, string) (portrelay.HalfCloser, error) {
	conn, err := net.Dial("tcp", h.address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// requestRecorder records the requests to a handler.
type requestRecorder struct {
	http.Handler
	mu       sync.Mutex
	requests []string
	changed  chan struct{} // has an element after a request
}

func (r *requestRecorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, q.Method+" "+q.URL.Path)
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	r.Handler.ServeHTTP(w, q)
}

func (r *requestRecorder) recorded() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.requests), func(s string) bool { return strings.HasSuffix(s, "/favicon.ico") })
}

// TestHostileTaskCannotUseAPI opens a hostile page of a task in a browser: at an origin of
// its own, where its requests arrive, and at the API's, where none does.
func TestHostileTaskCannotUseAPI(t *testing.T) {
	task := &requestRecorder{changed: make(chan struct{}, 1), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, hostilePage)
	})}
	upstream := httptest.NewServer(task)
	t.Cleanup(upstream.Close)
	log := logrus.New()
	log.SetOutput(io.Discard)
	b := hostileTask{address: strings.TrimPrefix(upstream.URL, "http://")}
	scheduler := &requestRecorder{
		changed: make(chan struct{}, 1),
		Handler: apiserver.NewHandler(func() apiserver.Backend { return backendtest.NewLeader(b) }, log),
	}
	s := httptest.NewServer(scheduler)
	t.Cleanup(s.Close)

	own := openBlankTab(t)
	_ = chromedp.Do(own.ctx, chromedp.Navigate(upstream.URL)) // the page leaves while it loads
	for !slices.Contains(task.recorded(), "DELETE /v1/jobs/train") {
		select {
		case <-task.changed:
		case <-time.After(waitTimeout):
			t.Fatalf("the page does nothing in a browser: %q", task.recorded())
		}
	}
	const proxied = "/v1/jobs/train/tasks/0/proxy/web/"
	p := openBlankTab(t)
	p.runActions(chromedp.Navigate(s.URL+proxied), chromedp.Navigate("about:blank"))
	if got := scheduler.recorded(); !slices.Equal(got, []string{"GET " + proxied}) {
		t.Errorf("the API received %q, want the page alone", got)
	}
	for _, tab := range []*browserTab{own, p} {
		tab.mu.Lock()
		tab.mistakes = nil // what the page tried
		tab.mu.Unlock()
	}
}

package loads

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/job"
)

const metricsText = `# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{code="200"} 100
http_requests_total{code="500"} 20
# TYPE queue_length gauge
queue_length{model="a"} 3
queue_length{model="b"} 4.5
untyped_queue 7
# TYPE latency_seconds histogram
latency_seconds_bucket{le="1"} 8
latency_seconds_bucket{le="+Inf"} 9
latency_seconds_sum 3
latency_seconds_count 9
# TYPE size_bytes summary
size_bytes{quantile="0.5"} 1
size_bytes_sum 12
size_bytes_count 11
`

func TestReadMetric(t *testing.T) {
	for metric, want := range map[string]metricSample{
		"http_requests_total": {value: 120, counter: true},
		"queue_length":        {value: 7.5},
		"untyped_queue":       {value: 7},
		"latency_seconds":     {value: 9, counter: true},
		"size_bytes":          {value: 11, counter: true},
	} {
		if got, err := readMetric(strings.NewReader(metricsText), metric); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", metric, got, err, want)
		}
	}
	for text, want := range map[string]string{
		metricsText:   "no metric other",
		"<html>":      "no metrics in Prometheus's text format",
		"other NaN\n": "the value of other is NaN",
		"other -2\n":  "the value of other is -2",
		"":            "no metric other",
	} {
		if _, err := readMetric(strings.NewReader(text), "other"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: got %v, want %q", text, err, want)
		}
	}
}

// An answer without an end is not read beyond the limit.
func TestLargeMetricsAreRejected(t *testing.T) {
	endless := &repeatedLine{line: []byte("other{n=\"1\"} 1\n")}
	if _, err := readMetric(endless, "other"); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
	if endless.read > maxScrapeBytes+1 {
		t.Errorf("read %d bytes", endless.read)
	}
}

// repeatedLine repeats a line forever.
type repeatedLine struct {
	line []byte
	read int
}

func (r *repeatedLine) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], r.line[(r.read+n)%len(r.line):])
	}
	r.read += n
	return n, nil
}

func TestRateOfCounter(t *testing.T) {
	at := func(seconds int, value float64) metricSample {
		return metricSample{at: time.Unix(int64(seconds), 0), value: value, counter: true}
	}
	for name, c := range map[string]struct {
		samples []metricSample
		want    float64
	}{
		"one sample":  {[]metricSample{at(0, 5)}, math.NaN()},
		"same time":   {[]metricSample{at(0, 5), at(0, 6)}, math.NaN()},
		"two samples": {[]metricSample{at(0, 5), at(10, 25)}, 2},
		"a restart":   {[]metricSample{at(0, 50), at(10, 60), at(20, 4), at(30, 16)}, 26.0 / 30},
		"idle":        {[]metricSample{at(0, 5), at(10, 5)}, 0},
		"backward":    {[]metricSample{at(10, 5), at(0, 6)}, math.NaN()},
	} {
		got, ok := rateOf(c.samples)
		if ok == math.IsNaN(c.want) || ok && math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: got %g, %t, want %g", name, got, ok, c.want)
		}
	}
	var samples []metricSample
	for i := range 100 {
		samples = addSample(samples, at(15*i, float64(i)))
		if len(samples) > 6 || i > 0 && len(samples) < 2 || samples[len(samples)-1].value != float64(i) {
			t.Fatalf("after %d samples %v are kept", i+1, samples)
		}
	}
	if rate, _ := rateOf(samples); math.Abs(rate-1.0/15) > 1e-9 {
		t.Errorf("rate %g, want 1/15", rate)
	}
	if far := addSample(samples, at(1_000_000, 200)); len(far) != 2 {
		t.Errorf("after a long pause %d samples are kept, want 2", len(far))
	}
}

// serviceOf returns a service with a task for each server.
func serviceOf(t *testing.T, target job.LoadTarget, servers ...*httptest.Server) *job.Job {
	t.Helper()
	j := &job.Job{Spec: &job.Spec{Name: "web", Service: &job.Service{Autoscaling: job.AutoscalingPolicy{Min: 1, Max: 9, Target: target}}}}
	for i, s := range servers {
		u, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			t.Fatal(err)
		}
		j.Tasks = append(j.Tasks, job.Task{
			ID:       fmt.Sprint("web.", i),
			Index:    i,
			State:    job.Running,
			AgentURL: "http://127.0.0.1:5051",
			Hostname: "host.invalid",
			Ports:    []int{port},
		})
	}
	return j
}

func serveText(t *testing.T, text func() string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, text())
	}))
	t.Cleanup(s.Close)
	return s
}

func TestObserveMetric(t *testing.T) {
	requests := atomic.Int64{}
	m := New(nil)
	text := func() string {
		return fmt.Sprintf("# TYPE http_requests_total counter\nhttp_requests_total %d\n# TYPE queue gauge\nqueue 6\n", requests.Load())
	}
	one, two := serveText(t, text), serveText(t, text)
	queue := serviceOf(t, job.LoadTarget{Value: 3, Metric: "queue", Path: "/metrics"}, one, two)
	if o := m.Observe(t.Context(), queue); !slices.Equal(o.Loads, []float64{6, 6}) || o.Wanted != 2 || o.Problem != "" {
		t.Errorf("gauge: %+v", o)
	}
	wrong := serviceOf(t, job.LoadTarget{Value: 3, Metric: "http_requests_total", Path: "/metrics"}, one)
	if o := m.Observe(t.Context(), wrong); len(o.Loads) > 0 || !strings.Contains(o.Problem, "is a counter: use requests_per_second") {
		t.Errorf("counter as a value: %+v", o)
	}
	rate := serviceOf(t, job.LoadTarget{RequestsPerSecond: 3, Metric: "http_requests_total", Path: "/metrics"}, one)
	if o := m.Observe(t.Context(), rate); len(o.Loads) > 0 || !strings.Contains(o.Problem, "a rate needs two values") {
		t.Errorf("first value of a counter: %+v", o)
	}
	requests.Add(1000)
	if o := m.Observe(t.Context(), rate); len(o.Loads) != 1 || o.Loads[0] <= 0 || o.Problem != "" {
		t.Errorf("second value of a counter: %+v", o)
	}
	m.DropOtherTasks([]job.Job{*queue})
	if len(m.samples) != 1 {
		t.Errorf("%d tasks have samples, want the one that is left", len(m.samples))
	}
	m.DropOtherTasks(nil)
	if len(m.samples) != 0 {
		t.Errorf("%d tasks have samples", len(m.samples))
	}
}

// Tasks that do not serve requests are not measured, and the problem says how many or why.
func TestObserveOnlyReadyTasks(t *testing.T) {
	s := serveText(t, func() string { return "queue 6\n" })
	j := serviceOf(t, job.LoadTarget{Value: 3, Metric: "queue", Path: "/metrics"}, s, s, s, s, s, s)
	yes, no := true, false
	j.Spec.HealthCheck = &job.HealthCheck{}
	j.Tasks[0].Healthy, j.Tasks[1].Healthy = &yes, &no
	j.Tasks[3].State = job.Waiting
	j.Tasks[4].Healthy, j.Tasks[4].KillRequested = &yes, time.Unix(1, 0)
	j.Tasks[5].State, j.Tasks[5].KillReason = job.Killed, job.KillByScaling
	if o := New(nil).Observe(t.Context(), j); o.Wanted != 5 || o.Waiting != 1 || len(o.Loads) != 1 || o.Problem != "4 tasks not ready" {
		t.Errorf("got %+v", o)
	}
}

func TestObserveProblems(t *testing.T) {
	gone := serveText(t, nil)
	gone.Close()
	secret := serveText(t, func() string { return "queue 6\n" })
	redirect := httptest.NewServer(http.RedirectHandler(secret.URL+"/metrics", http.StatusFound))
	t.Cleanup(redirect.Close)
	target := job.LoadTarget{Value: 3, Metric: "queue", Path: "/metrics"}
	for want, j := range map[string]*job.Job{
		"connection refused": serviceOf(t, target, gone),
		"302 Found":          serviceOf(t, target, redirect),
		"404 Not Found":      serviceOf(t, job.LoadTarget{Value: 3, Metric: "queue", Path: "/other"}, secret),
		"it has no port 1":   serviceOf(t, job.LoadTarget{Value: 3, Metric: "queue", Path: "/metrics", PortIndex: 1}, secret),
		"text format":        serviceOf(t, target, serveText(t, func() string { return "\x1b[31m" + strings.Repeat("wrong ", 1000) })),
	} {
		o := New(nil).Observe(t.Context(), j)
		if len(o.Loads) > 0 || !strings.Contains(o.Problem, want) || len(o.Problem) > 300 || strings.Contains(o.Problem, "\x1b") {
			t.Errorf("got %+v, want the problem %q", o, want)
		}
	}
}

// A task that accepts connections and never answers delays the measurement by the timeout at
// most; the context ends it earlier.
func TestSilentTaskIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := &httptest.Server{URL: "http://" + l.Addr().String()}
	m := New(nil)
	m.client.Timeout = time.Millisecond
	if o := m.Observe(t.Context(), serviceOf(t, job.LoadTarget{Value: 3, Metric: "queue", Path: "/metrics"}, s)); len(o.Loads) > 0 || o.Problem == "" {
		t.Errorf("got %+v", o)
	}
}

func TestObserveDuty(t *testing.T) {
	m := New(func(task string) (float64, bool) { return 0.75, task == "web.0" })
	j := serviceOf(t, job.LoadTarget{GPUDuty: 60}, serveText(t, nil), serveText(t, nil))
	if o := m.Observe(t.Context(), j); !slices.Equal(o.Loads, []float64{75}) || !strings.Contains(o.Problem, "task 1: its agent has not reported") {
		t.Errorf("got %+v", o)
	}
}

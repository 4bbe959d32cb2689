package mesosagent

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/mesosapi"
)

// agentServer returns recorded responses.
type agentServer struct {
	t *testing.T

	mu     sync.Mutex
	calls  int
	header string
	refuse int
	big    bool
}

func (m *agentServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := new(agent.Call)
	if err := mesosapi.ReadCall(r, call); err != nil || r.URL.Path != "/slave(1)/api/v1" {
		http.NotFound(w, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	m.header = r.Header.Get("Authorization")
	switch {
	case m.refuse != 0:
		http.Error(w, "not now", m.refuse)
	case m.big:
		_, _ = io.Copy(w, io.LimitReader(zeroReader{}, maxResponseBytes+2))
	case call.Type == agent.Call_GET_EXECUTORS:
		mesosapi.WriteResponse(w, r, &agent.Response{Type: agent.Response_GET_EXECUTORS, GetExecutors: &agent.Response_GetExecutors{}})
	default:
		mesosapi.WriteResponse(w, r, readRecorded(m.t, call.Type.String()))
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (m *agentServer) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func startAgent(t *testing.T, start func(*httptest.Server)) (*agentServer, ClientConfig) {
	t.Helper()
	m := &agentServer{t: t}
	server := httptest.NewUnstartedServer(m)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(server)
	t.Cleanup(server.Close)
	logger, _ := logtest.NewNullLogger()
	c := ClientConfig{AgentURL: server.URL + "/slave(1)/", Log: logger, Authorization: "Basic eA==", MinInterval: time.Nanosecond, timeout: time.Minute} // on a busy machine the default is too short for 64 MiB
	if server.TLS != nil {
		c.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
	}
	return m, c
}

func mustNew(t *testing.T, c ClientConfig) *AgentClient {
	t.Helper()
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.client.CloseIdleConnections)
	return a
}

func TestRefreshState(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){"http": (*httptest.Server).Start, "https": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			m, c := startAgent(t, start)
			a := mustNew(t, c)
			if got := a.Holders(); got != nil {
				t.Errorf("before the first answer: %v", got)
			}
			if err := a.RefreshState(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := a.Holders()
			if len(got) != 2 || got[1].Task != "t-3613ae" || got[1].Devices[0] != "GPU-b" {
				t.Errorf("got %+v", got)
			}
			m.set(func() {
				if m.calls != 3 || m.header != "Basic eA==" {
					t.Errorf("%d calls, Authorization %q", m.calls, m.header)
				}
			})
		})
	}
}

// queryTransport is an agent without a network. It reports the start of each query, which is
// its first call, and blocks it until the test continues it.
type queryTransport struct {
	started  chan time.Time
	proceed  chan int // the status of the answer
	fallback http.Handler
}

func (q *queryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := new(agent.Call)
	if err := proto.Unmarshal(body, call); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	if call.Type == agent.Call_GET_CONTAINERS {
		q.started <- time.Now()
		select {
		case status := <-q.proceed:
			if status != http.StatusOK {
				w.WriteHeader(status)
				return w.Result(), nil
			}
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	q.fallback.ServeHTTP(w, r)
	return w.Result(), nil
}

// Concurrent callers share a query that starts after their calls, and its error. A caller that
// leaves ends its own query only, and the shortest interval is kept between queries.
func TestCallersShareQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, _ := logtest.NewNullLogger()
		a := mustNew(t, ClientConfig{AgentURL: "http://agent/slave(1)", Log: logger, MinInterval: time.Second, timeout: time.Hour})
		q := &queryTransport{started: make(chan time.Time), proceed: make(chan int), fallback: &agentServer{t: t}}
		a.client.Transport = q
		const callers = 50
		errs := make(chan error, callers)
		refreshMany := func(ctx context.Context, n int) {
			for range n {
				go func() { errs <- a.RefreshState(ctx) }()
			}
		}
		wantResults := func(n int, want string) {
			t.Helper()
			for range n {
				if err := <-errs; err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		}
		refreshMany(t.Context(), 1)
		<-q.started
		refreshMany(t.Context(), callers) // may not use that query, which could lack their containers
		synctest.Wait()
		q.proceed <- http.StatusOK
		wantResults(1, "")
		endedAt := time.Now()
		if at := <-q.started; at.Sub(endedAt) != time.Second {
			t.Errorf("the second query starts %s after the first, want 1s", at.Sub(endedAt))
		}
		q.proceed <- http.StatusServiceUnavailable
		wantResults(callers, "503")

		leaving, leave := context.WithCancel(t.Context())
		refreshMany(leaving, 1)
		<-q.started
		refreshMany(t.Context(), callers)
		synctest.Wait()
		leave()
		wantResults(1, "context canceled")
		<-q.started
		q.proceed <- http.StatusOK
		wantResults(callers, "")
		select {
		case <-q.started:
			t.Error("one more query was sent")
		case <-time.After(time.Hour):
		}
	})
}

func TestErrorsAreLoggedOnce(t *testing.T) {
	m, c := startAgent(t, (*httptest.Server).Start)
	logger, logged := logtest.NewNullLogger()
	c.Log, c.interval = logger, time.Millisecond
	m.set(func() { m.refuse = http.StatusUnauthorized })
	a := mustNew(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.Run(ctx)
	}()
	waitFor(t, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.calls > 5
	})
	m.set(func() { m.refuse = 0 })
	waitFor(t, func() bool { return len(a.Holders()) == 2 })
	cancel()
	<-done
	warnings := 0
	for _, e := range logged.AllEntries() {
		if e.Level == logrus.WarnLevel {
			warnings++
			if err := e.Data[logrus.ErrorKey].(error); !strings.Contains(err.Error(), "call the agent's GET_CONTAINERS: it responds 401 Unauthorized: not now") {
				t.Errorf("logged %v", err)
			}
		}
	}
	if warnings != 1 {
		t.Errorf("logged %d warnings", warnings)
	}
}

// waitFor polls for a condition without an event.
func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// The state of an agent that disappears is used for a while; then no holders are
// reported.
func TestStateExpires(t *testing.T) {
	_, c := startAgent(t, (*httptest.Server).Start)
	c.maxAge = time.Hour
	a := mustNew(t, c)
	if err := a.RefreshState(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.queriedAt = time.Now().Add(-59 * time.Minute)
	if got := a.Holders(); len(got) != 2 {
		t.Errorf("after 59 min: %v", got)
	}
	a.queriedAt = time.Now().Add(-61 * time.Minute)
	if got := a.Holders(); got != nil {
		t.Errorf("after 61 min: %v", got)
	}
}

func TestResponseSizeIsBounded(t *testing.T) {
	m, c := startAgent(t, (*httptest.Server).Start)
	m.big = true
	if err := mustNew(t, c).RefreshState(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	logger, _ := logtest.NewNullLogger()
	for _, c := range []ClientConfig{{Log: logger}, {AgentURL: "ftp://x", Log: logger}, {AgentURL: "http://x:5051/slave(1)"}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

// Decoding accepts or rejects any bytes without a panic.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"GET_CONTAINERS", "GET_TASKS"} {
		t := &testing.T{}
		body, err := readRecorded(t, name).Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(body))
	}
	f.Fuzz(func(t *testing.T, body string) {
		response, err := decodeResponse(strings.NewReader(body))
		if err != nil {
			return
		}
		list := listHolders(agentState{response.GetContainers, response.GetExecutors, response.GetTasks})
		for _, h := range list {
			if len(h.Devices) == 0 {
				t.Errorf("%+v holds nothing", h)
			}
		}
		for _, h := range MergeHolders([]gpu.ContainerDevices{{Container: "c", Devices: []string{"GPU-s"}}}, list) {
			if len(h.Devices) == 0 {
				t.Errorf("%+v holds nothing", h)
			}
		}
	})
}

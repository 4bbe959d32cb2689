// Package mesostest is a small Mesos master for tests of the framework: the
// v1 scheduler API over HTTP, with events and answers that the test decides.
// It keeps no state of tasks; Cluster adds what little of that tests need.
package mesostest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/inmemory"
)

// Master is a fake. Set its fields before the first call.
type Master struct {
	// React is called with each call that was taken, in their order.
	React func(*scheduler.Call)
	// Refuse may answer a call, SUBSCRIBE too, with a status other than
	// success, or Hang and never; 0 takes it. 307 leads to Leader.
	Refuse func(*scheduler.Call) int
	// Text is what refusals say.
	Text string
	// Agents answers GET_AGENTS.
	Agents master.Response_GetAgents
	// Heartbeat is announced; Beat sends one.
	Heartbeat time.Duration
	// Leader is where to redirect to; itself, if empty.
	Leader string

	server            *httptest.Server
	handler           http.Handler
	listen            string
	tls               *tls.Config
	memory            bool
	principal, secret string

	mu      sync.Mutex
	stream  *stream
	id      string // of the stream
	calls   []scheduler.Call
	more    chan struct{} // closed and replaced at each call
	subs    int
	demoted bool
	files   map[string]string
}

// Hang leaves a call without an answer, taken or not, until its client goes.
const Hang = -1

// New starts a Master that is stopped at the end of the test.
func New(t testing.TB, options ...Option) *Master {
	m := &Master{Heartbeat: 15 * time.Second, more: make(chan struct{}), files: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/master/redirect", m.redirect)
	mux.HandleFunc("/api/v1/scheduler", m.scheduler)
	mux.HandleFunc("/api/v1", m.operator)
	mux.HandleFunc("/slave(1)/api/v1", m.agent)
	for _, o := range options {
		o(m)
	}
	m.handler = mux
	if !m.memory {
		m.server = httptest.NewUnstartedServer(mux)
		m.start(t)
	}
	t.Cleanup(m.Close)
	return m
}

// Close ends the master as a crash would.
func (m *Master) Close() {
	m.Drop()
	if m.memory {
		return
	}
	m.server.CloseClientConnections()
	m.server.Close()
}

// URL is its address; AgentURL that of its agents, all of them.
func (m *Master) URL() string {
	if m.memory {
		return "http://master.in.memory:5050"
	}
	return m.server.URL
}

func (m *Master) AgentURL() string { return m.URL() + "/slave(1)" }

// Transport reaches a Master that is InMemory.
func (m *Master) Transport() http.RoundTripper { return inmemory.Transport{Handler: m.handler} }

// location is where a redirect leads, in Mesos's way: without a scheme, and
// without the brackets of an IPv6 address.
func (m *Master) location() string {
	leader := m.Leader
	if leader == "" {
		leader = m.URL()
	}
	_, address, _ := strings.Cut(leader, "://")
	return "//" + strings.NewReplacer("[", "", "]", "").Replace(address)
}

func (m *Master) redirect(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", m.location())
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func (m *Master) scheduler(w http.ResponseWriter, r *http.Request) {
	var call scheduler.Call
	if !m.known(w, r) || !readCall(w, r, &call) || m.refused(w, r, &call) {
		return
	}
	if call.GetType() == scheduler.Call_SUBSCRIBE {
		m.subscribe(w, r, &call)
		return
	}
	m.mu.Lock()
	subscribed := m.id != "" && r.Header.Get(streamID) == m.id
	m.mu.Unlock()
	if !subscribed {
		http.Error(w, "Framework is not subscribed", http.StatusForbidden)
		return
	}
	status := http.StatusAccepted
	if call.GetType() == scheduler.Call_UPDATE_FRAMEWORK {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	m.note(&call)
}

// refused answers what Refuse does not take.
func (m *Master) refused(w http.ResponseWriter, r *http.Request, call *scheduler.Call) bool {
	if m.Refuse == nil {
		return false
	}
	switch status := m.Refuse(call); status {
	case 0:
		return false
	case Hang:
		<-r.Context().Done()
	case http.StatusTemporaryRedirect:
		w.Header().Set("Location", m.location()+r.URL.Path)
		w.WriteHeader(status)
	default:
		http.Error(w, m.Text, status)
	}
	return true
}

func (m *Master) subscribe(w http.ResponseWriter, r *http.Request, call *scheduler.Call) {
	stream := newStream()
	m.mu.Lock()
	m.subs++
	if m.stream != nil { // as Mesos does
		m.stream.send(&scheduler.Event{Type: scheduler.Event_ERROR, Error: &scheduler.Event_Error{Message: "Framework failed over"}})
		m.stream.close()
	}
	m.stream, m.id = stream, fmt.Sprintf("stream-%d", m.subs)
	id := m.id
	m.mu.Unlock()
	framework := call.GetFrameworkID().GetValue()
	if framework == "" {
		framework = "framework-1"
	}
	seconds := m.Heartbeat.Seconds()
	m.Send(&scheduler.Event{Type: scheduler.Event_SUBSCRIBED, Subscribed: &scheduler.Event_Subscribed{
		FrameworkID: &mesos.FrameworkID{Value: framework}, HeartbeatIntervalSeconds: &seconds,
	}})
	m.note(call)
	stream.serve(r.Context(), w, id)
}

func (m *Master) note(call *scheduler.Call) {
	m.mu.Lock()
	m.calls = append(m.calls, *call)
	close(m.more)
	m.more = make(chan struct{})
	m.mu.Unlock()
	if m.React != nil {
		m.React(call)
	}
}

// Send sends events on the current subscription, if any.
func (m *Master) Send(events ...*scheduler.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ev := range events {
		if m.stream != nil {
			m.stream.send(ev)
		}
	}
}

// Beat sends a heartbeat.
func (m *Master) Beat() { m.Send(&scheduler.Event{Type: scheduler.Event_HEARTBEAT}) }

// Demote makes the Master redirect every operator call to the new leader. It
// keeps its subscription until Drop.
func (m *Master) Demote(leader string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Leader, m.demoted = leader, true
}

// Drop ends the current subscription.
func (m *Master) Drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream != nil {
		m.stream.close()
		m.stream, m.id = nil, ""
	}
}

// Calls are those taken so far, SUBSCRIBE included.
func (m *Master) Calls() []scheduler.Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]scheduler.Call(nil), m.calls...)
}

// Await waits for the nth call (from 1) of that type that match accepts; nil
// accepts all.
func (m *Master) Await(t testing.TB, n int, kind scheduler.Call_Type, match func(*scheduler.Call) bool) *scheduler.Call {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		m.mu.Lock()
		more, seen := m.more, 0
		for i := range m.calls {
			if c := &m.calls[i]; c.GetType() == kind && (match == nil || match(c)) {
				if seen++; seen == n {
					m.mu.Unlock()
					return c
				}
			}
		}
		m.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("no call %d of type %s came; calls: %v", n, kind, m.kinds())
		}
	}
}

func (m *Master) kinds() []string {
	var kinds []string
	for _, c := range m.Calls() {
		kinds = append(kinds, c.GetType().String())
	}
	return kinds
}

func (m *Master) operator(w http.ResponseWriter, r *http.Request) {
	var call master.Call
	if !m.known(w, r) || !readCall(w, r, &call) {
		return
	}
	if call.GetType() != master.Call_GET_AGENTS {
		http.Error(w, "the fake has no "+call.GetType().String(), http.StatusNotImplemented)
		return
	}
	m.mu.Lock()
	agents, demoted := m.Agents, m.demoted
	m.mu.Unlock()
	if demoted {
		w.Header().Set("Location", m.location()+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	writeAnswer(w, &master.Response{Type: master.Response_GET_AGENTS, GetAgents: &agents})
}

// SetFile gives the agents a file.
func (m *Master) SetFile(path, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[path] = text
}

func (m *Master) agent(w http.ResponseWriter, r *http.Request) {
	var call agent.Call
	if !m.known(w, r) || !readCall(w, r, &call) {
		return
	}
	read := call.GetReadFile()
	m.mu.Lock()
	text, ok := m.files[read.GetPath()]
	m.mu.Unlock()
	if !ok {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	from := min(read.GetOffset(), uint64(len(text)))
	to := min(from+read.GetLength(), uint64(len(text)))
	writeAnswer(w, &agent.Response{Type: agent.Response_READ_FILE, ReadFile: &agent.Response_ReadFile{Size_: uint64(len(text)), Data: []byte(text[from:to])}})
}

// Package mesostest provides a small fake Mesos master for tests of the framework: the
// v1 scheduler API over HTTP, with events and answers that the test controls. FakeMaster
// stores no task states; FakeCluster adds as much of them as tests need.
package mesostest

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/events"
	"mesos-gpu/internal/testing/inmemory"
)

// FakeMaster is a fake Mesos master. Set its fields before the first call.
type FakeMaster struct {
	// OnCall is called with each accepted call, in order.
	OnCall func(*scheduler.Call)
	// OnAgentCall answers operator calls to the agents, except for files; nil is no answer.
	OnAgentCall func(*agent.Call) *agent.Response
	// RefuseStatus returns the HTTP status that rejects a call, including SUBSCRIBE; 0
	// accepts the call, Hang never answers it, 307 redirects to Leader.
	RefuseStatus func(*scheduler.Call) int
	// RefuseText is the body of rejections.
	RefuseText string
	// RefuseWeights is the HTTP status that rejects calls of this type, GET_WEIGHTS or UPDATE_WEIGHTS, if it is not 0.
	RefuseWeights map[master.Call_Type]int
	// OnWeights is called with the weights of each accepted UPDATE_WEIGHTS.
	OnWeights func(map[string]float64)
	// Agents is the answer to GET_AGENTS.
	Agents master.Response_GetAgents
	// Heartbeat is the announced interval; SendHeartbeat sends one.
	Heartbeat time.Duration
	// Leader is the target of redirects; "" is this master.
	Leader string

	server            *httptest.Server
	handler           http.Handler
	listen            string
	tls               *tls.Config
	memory            bool
	principal, secret string

	mu            sync.Mutex
	stream        *mesosapi.EventStream
	id            string // of the stream
	calls         []scheduler.Call
	more          chan struct{} // closed and replaced at each accepted call
	subscriptions int
	demoted       bool
	closed        bool
	files         map[string]string
	roles         string // the answer to GET /roles
	weights       map[string]float64
}

// defaultFramework is the id of a framework that subscribes without one.
const defaultFramework = "framework-1"

// Hang leaves a call unanswered, accepted or not, until its client disconnects.
const Hang = -1

// NewMaster starts a FakeMaster that stops at the end of the test.
func NewMaster(t testing.TB, options ...MasterOption) *FakeMaster {
	m := &FakeMaster{Heartbeat: 15 * time.Second, more: make(chan struct{}), files: map[string]string{}, weights: map[string]float64{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/master/redirect", m.serveRedirect)
	mux.HandleFunc("/api/v1/scheduler", m.serveScheduler)
	mux.HandleFunc("/api/v1", m.serveOperator)
	mux.HandleFunc("/roles", m.serveRoles)
	mux.HandleFunc("/slave(1)/api/v1", m.serveAgent)
	for _, o := range options {
		o(m)
	}
	m.handler = mux
	if !m.memory {
		m.server = httptest.NewUnstartedServer(mux)
		m.listenAndServe(t)
	}
	t.Cleanup(m.Close)
	return m
}

// Close stops the master abruptly, as a crash would.
func (m *FakeMaster) Close() {
	m.mu.Lock()
	m.closed = true // a client that subscribes again before the listener is closed would keep the server open
	m.mu.Unlock()
	m.DropSubscription()
	if m.memory {
		return
	}
	m.server.CloseClientConnections()
	m.server.Close()
}

// URL returns the master's URL; AgentURL returns the URL that all of its agents share.
func (m *FakeMaster) URL() string {
	if m.memory {
		return "http://master.in.memory:5050"
	}
	return m.server.URL
}

func (m *FakeMaster) AgentURL() string { return m.URL() + "/slave(1)" }

// Transport returns the transport to a FakeMaster with InMemory.
func (m *FakeMaster) Transport() http.RoundTripper {
	return inmemory.HandlerTransport{Handler: m.handler}
}

// redirectLocation returns the target of redirects in Mesos's format: without a scheme,
// and without the brackets of an IPv6 address.
func (m *FakeMaster) redirectLocation() string {
	leader := m.Leader
	if leader == "" {
		leader = m.URL()
	}
	_, address, _ := strings.Cut(leader, "://")
	return "//" + strings.NewReplacer("[", "", "]", "").Replace(address)
}

func (m *FakeMaster) serveRedirect(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Location", m.redirectLocation())
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// redirectPath redirects a request to the same path of the leader.
func (m *FakeMaster) redirectPath(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", m.redirectLocation()+r.URL.Path)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// readCall checks the credentials and reads a call. It answers the request and returns
// false if either fails.
func (m *FakeMaster) readCall(w http.ResponseWriter, r *http.Request, call proto.Message) bool {
	if !m.checkAuth(w, r) {
		return false
	}
	err := mesosapi.ReadCall(r, call)
	if err != nil {
		mesosapi.WriteError(w, err)
	}
	return err == nil
}

func (m *FakeMaster) serveScheduler(w http.ResponseWriter, r *http.Request) {
	var call scheduler.Call
	if !m.readCall(w, r, &call) || m.refuseCall(w, r, &call) {
		return
	}
	if call.GetType() == scheduler.Call_SUBSCRIBE {
		m.serveSubscription(w, r, &call)
		return
	}
	m.mu.Lock()
	current := m.id
	m.mu.Unlock()
	switch stream := r.Header.Get(mesosapi.HeaderStreamID); {
	case current == "":
		http.Error(w, "Framework is not subscribed", http.StatusForbidden)
		return
	case stream != current: // as Mesos answers an instance that another one has replaced
		http.Error(w, fmt.Sprintf("The stream ID '%s' included in this request didn't match the stream ID currently associated", stream), http.StatusBadRequest)
		return
	}
	status := http.StatusAccepted
	if call.GetType() == scheduler.Call_UPDATE_FRAMEWORK {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	m.recordCall(&call)
}

// refuseCall answers a call that RefuseStatus rejects and returns true.
func (m *FakeMaster) refuseCall(w http.ResponseWriter, r *http.Request, call *scheduler.Call) bool {
	if m.RefuseStatus == nil {
		return false
	}
	switch status := m.RefuseStatus(call); status {
	case 0:
		return false
	case Hang:
		<-r.Context().Done()
	case http.StatusTemporaryRedirect:
		m.redirectPath(w, r)
	default:
		http.Error(w, m.RefuseText, status)
	}
	return true
}

func (m *FakeMaster) serveSubscription(w http.ResponseWriter, r *http.Request, call *scheduler.Call) {
	stream, err := mesosapi.NewStream(r)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	m.subscriptions++
	if m.stream != nil { // Mesos does the same
		m.stream.Send(events.NewError("Framework failed over"))
		m.stream.Close()
	}
	m.stream, m.id = stream, fmt.Sprintf("stream-%d", m.subscriptions)
	id := m.id
	m.mu.Unlock()
	framework := cmp.Or(call.GetFrameworkID().GetValue(), defaultFramework)
	m.SendEvents(events.NewSubscribed(mesos.FrameworkID{Value: framework}, m.Heartbeat, nil))
	m.recordCall(call)
	_ = stream.Serve(r.Context(), w, id) // fails only if the client disconnected
}

func (m *FakeMaster) recordCall(call *scheduler.Call) {
	m.mu.Lock()
	m.calls = append(m.calls, *call)
	close(m.more)
	m.more = make(chan struct{})
	m.mu.Unlock()
	if m.OnCall != nil {
		m.OnCall(call)
	}
}

// SendEvents sends events to the current subscription, if any.
func (m *FakeMaster) SendEvents(list ...*scheduler.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ev := range list {
		if m.stream != nil {
			m.stream.Send(ev)
		}
	}
}

// SendHeartbeat sends a heartbeat.
func (m *FakeMaster) SendHeartbeat() { m.SendEvents(events.NewHeartbeat()) }

// Demote makes the FakeMaster redirect every operator call to the new leader. Its
// subscription continues until DropSubscription.
func (m *FakeMaster) Demote(leader string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Leader, m.demoted = leader, true
}

// DropSubscription ends the current subscription.
func (m *FakeMaster) DropSubscription() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stream != nil {
		m.stream.Close()
		m.stream, m.id = nil, ""
	}
}

// Calls returns the calls accepted so far, including SUBSCRIBE.
func (m *FakeMaster) Calls() []scheduler.Call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]scheduler.Call(nil), m.calls...)
}

// AwaitCall waits for the nth call (from 1) of that type for which match returns true; a
// nil match accepts all. It fails the test after a minute.
func (m *FakeMaster) AwaitCall(t testing.TB, n int, kind scheduler.Call_Type, match func(*scheduler.Call) bool) *scheduler.Call {
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
			t.Fatalf("no call %d of type %s came; calls: %v", n, kind, m.callTypes())
		}
	}
}

func (m *FakeMaster) callTypes() []string {
	var kinds []string
	for _, c := range m.Calls() {
		kinds = append(kinds, c.GetType().String())
	}
	return kinds
}

func (m *FakeMaster) serveOperator(w http.ResponseWriter, r *http.Request) {
	var call master.Call
	if !m.readCall(w, r, &call) {
		return
	}
	m.mu.Lock()
	demoted := m.demoted
	m.mu.Unlock()
	if demoted {
		m.redirectPath(w, r)
		return
	}
	if status := m.RefuseWeights[call.GetType()]; status != 0 {
		http.Error(w, m.RefuseText, status)
		return
	}
	switch call.GetType() {
	case master.Call_GET_AGENTS:
		m.mu.Lock()
		agents := m.Agents
		m.mu.Unlock()
		mesosapi.WriteResponse(w, r, &master.Response{Type: master.Response_GET_AGENTS, GetAgents: &agents})
	case master.Call_GET_WEIGHTS:
		mesosapi.WriteResponse(w, r, &master.Response{Type: master.Response_GET_WEIGHTS, GetWeights: m.listWeights()})
	case master.Call_UPDATE_WEIGHTS:
		m.updateWeights(call.GetUpdateWeights().GetWeightInfos())
	default:
		http.Error(w, "the fake has no "+call.GetType().String(), http.StatusNotImplemented)
	}
}

func (m *FakeMaster) listWeights() *master.Response_GetWeights {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := &master.Response_GetWeights{}
	for role, weight := range m.weights {
		list.WeightInfos = append(list.WeightInfos, mesos.WeightInfo{Role: &role, Weight: weight})
	}
	return list
}

func (m *FakeMaster) updateWeights(infos []mesos.WeightInfo) {
	changed := map[string]float64{}
	m.mu.Lock()
	for _, w := range infos {
		changed[w.GetRole()], m.weights[w.GetRole()] = w.Weight, w.Weight
	}
	m.mu.Unlock()
	if m.OnWeights != nil {
		m.OnWeights(changed)
	}
}

func (m *FakeMaster) serveRoles(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	roles, demoted := m.roles, m.demoted
	m.mu.Unlock()
	if demoted {
		m.redirectPath(w, r)
		return
	}
	io.WriteString(w, cmp.Or(roles, `{"roles": []}`))
}

// SetRoles sets the answer to GET /roles.
func (m *FakeMaster) SetRoles(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roles = text
}

// SetFile adds a file to the agents' sandboxes.
func (m *FakeMaster) SetFile(path, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[path] = text
}

func (m *FakeMaster) serveAgent(w http.ResponseWriter, r *http.Request) {
	var call agent.Call
	if !m.readCall(w, r, &call) {
		return
	}
	switch call.GetType() {
	case agent.Call_LIST_FILES:
		m.serveListFiles(w, r, call.GetListFiles().GetPath())
		return
	case agent.Call_READ_FILE:
	default:
		if m.OnAgentCall != nil {
			if answer := m.OnAgentCall(&call); answer != nil {
				mesosapi.WriteResponse(w, r, answer)
				return
			}
		}
		http.Error(w, "the fake agent has no "+call.GetType().String(), http.StatusNotImplemented)
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
	mesosapi.WriteResponse(w, r, &agent.Response{
		Type:     agent.Response_READ_FILE,
		ReadFile: &agent.Response_ReadFile{Size_: uint64(len(text)), Data: []byte(text[from:to])},
	})
}

// serveListFiles lists a folder that has files of SetFile.
func (m *FakeMaster) serveListFiles(w http.ResponseWriter, r *http.Request, folder string) {
	folder = strings.TrimSuffix(folder, "/") + "/"
	m.mu.Lock()
	entries, found := map[string]mesos.FileInfo{}, false
	for name, text := range m.files {
		rest, ok := strings.CutPrefix(name, folder)
		found = found || ok || name+"/" == folder
		if !ok {
			continue
		}
		first, _, below := strings.Cut(rest, "/")
		mode, size := uint32(syscall.S_IFREG|0o644), uint64(len(text))
		if below {
			mode, size = syscall.S_IFDIR|0o755, 4096
		}
		entries[first] = mesos.FileInfo{Path: "/work" + folder + first, Mode: &mode, Size_: &size, Mtime: &mesos.TimeInfo{Nanoseconds: 1}}
	}
	m.mu.Unlock()
	if !found {
		http.Error(w, "no such folder", http.StatusNotFound)
		return
	}
	var list []mesos.FileInfo
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		list = append(list, entries[name])
	}
	mesosapi.WriteResponse(w, r, &agent.Response{Type: agent.Response_LIST_FILES, ListFiles: &agent.Response_ListFiles{FileInfos: list}})
}

// RemoveFiles removes the files of SetFile below a folder, as Mesos removes sandboxes.
func (m *FakeMaster) RemoveFiles(folder string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.files, func(name, _ string) bool { return strings.HasPrefix(name, folder) })
}

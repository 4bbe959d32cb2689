package advertise

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/mesosapi"
	rp "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/isolator/simulated"
)

// patience is the timeout of a test; a successful wait is much shorter.
const patience = time.Minute

// providerAgent is the resource provider API of a Mesos agent. It assigns provider IDs, keeps
// one stream per provider, and fails the test where a real agent would abort.
type providerAgent struct {
	t      *testing.T
	server *httptest.Server
	// calls receives every call in order, streams every subscription.
	calls   chan *rp.ProviderCall
	streams chan *mesosapi.EventStream

	mu      sync.Mutex
	known   map[string]bool
	live    map[string]string      // provider id → stream id
	refuse  map[rp.CallType][]int  // statuses to return instead, in order
	headers map[rp.CallType]string // the last Authorization of each
	// id is the agent's ID. inUse are the devices that tasks hold from any provider.
	id    string
	inUse []string
	// mute, if set, is the status of every operator API response; asked counts the calls.
	mute  int
	asked map[operator.Call_Type]int
	// token, if set, is the Authorization that callers must send.
	token string
	// onSubscribe, if set, is called for each SUBSCRIBE with the lock held.
	onSubscribe func()
}

// senderFunc is a mesosapi.EventStream that only sends events.
type senderFunc struct{ *mesosapi.EventStream }

func (s senderFunc) Send(e *rp.ProviderEvent) { s.EventStream.Send(e) }

func newAgent(t *testing.T, start func(*httptest.Server)) *providerAgent {
	t.Helper()
	a := &providerAgent{
		t:       t,
		calls:   make(chan *rp.ProviderCall, 100),
		streams: make(chan *mesosapi.EventStream, 100),
		id:      "agent-1",
		asked:   map[operator.Call_Type]int{},
		known:   map[string]bool{},
		live:    map[string]string{},
		refuse:  map[rp.CallType][]int{},
		headers: map[rp.CallType]string{},
	}
	a.server = httptest.NewUnstartedServer(a)
	a.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(a.server)
	t.Cleanup(a.server.Close)
	return a
}

func (a *providerAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/slave(1)/api/v1":
		a.tell(w, r)
		return
	case "/slave(1)/api/v1/resource_provider":
	default:
		http.NotFound(w, r)
		return
	}
	call := new(rp.ProviderCall)
	if err := mesosapi.ReadCall(r, call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	a.mu.Lock()
	a.headers[call.Type] = r.Header.Get("Authorization")
	if list := a.refuse[call.Type]; len(list) > 0 {
		a.refuse[call.Type] = list[1:]
		a.mu.Unlock()
		mesosapi.WriteError(w, mesosapi.Errorf(list[0], "not now"))
		return
	}
	a.mu.Unlock()
	if call.Type == rp.CallSubscribe {
		a.subscribe(w, r, call)
		return
	}
	a.mu.Lock()
	stream := a.live[call.ResourceProviderID.GetValue()]
	a.mu.Unlock()
	if stream == "" || stream != r.Header.Get(mesosapi.HeaderStreamID) {
		mesosapi.WriteError(w, mesosapi.Errorf(http.StatusBadRequest, "resource provider is not subscribed"))
		return
	}
	a.calls <- call
	w.WriteHeader(http.StatusAccepted)
}

// tell serves the operator API: the agent's ID and its tasks.
func (a *providerAgent) tell(w http.ResponseWriter, r *http.Request) {
	call := new(operator.Call)
	if err := mesosapi.ReadCall(r, call); err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != "" && r.Header.Get("Authorization") != a.token {
		mesosapi.WriteError(w, mesosapi.Errorf(http.StatusUnauthorized, "who are you?"))
		return
	}
	a.asked[call.Type]++
	if a.mute != 0 {
		mesosapi.WriteError(w, mesosapi.Errorf(a.mute, "not to you"))
		return
	}
	answer := &operator.Response{Type: operator.Response_GET_AGENT, GetAgent: &operator.Response_GetAgent{AgentInfo: &mesos.AgentInfo{Hostname: "a"}}}
	if a.id != "" {
		answer.GetAgent.AgentInfo.ID = &mesos.AgentID{Value: a.id}
	}
	if call.Type == operator.Call_GET_STATE {
		answer = &operator.Response{Type: operator.Response_GET_STATE, GetState: a.tasks()}
	}
	mesosapi.WriteResponse(w, r, answer)
}

// tasks returns a task that holds the devices in use, a task that has ended, and a task
// with devices of another provider.
func (a *providerAgent) tasks() *operator.Response_GetState {
	task := func(id, provider string, devices ...string) mesos.Task {
		return mesos.Task{TaskID: mesos.TaskID{Value: id}, State: mesos.TASK_RUNNING.Enum(), Resources: []mesos.Resource{{
			ProviderID: providerIDMessage(provider), Name: ResourceGPUIDs, Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: devices},
		}}}
	}
	tasks := &operator.Response_GetTasks{
		TerminatedTasks: []mesos.Task{task("over", "provider-1", "GPU-of-old")},
		QueuedTasks:     []mesos.Task{task("other", "another", "GPU-of-another")},
	}
	for provider := range a.known {
		tasks.LaunchedTasks = append(tasks.LaunchedTasks, task("run", provider, a.inUse...))
	}
	return &operator.Response_GetState{GetTasks: tasks}
}

func (a *providerAgent) subscribe(w http.ResponseWriter, r *http.Request, call *rp.ProviderCall) {
	stream, err := mesosapi.NewStream(r)
	if err != nil {
		mesosapi.WriteError(w, err)
		return
	}
	a.calls <- call
	id := call.Subscribe.ResourceProviderInfo.ID.GetValue()
	streamID := fmt.Sprintf("stream-%p", stream)
	a.mu.Lock()
	if a.onSubscribe != nil {
		a.onSubscribe()
	}
	if id == "" {
		id = fmt.Sprintf("provider-%d", len(a.known)+1)
		a.known[id] = true
	}
	known := a.known[id]
	if a.live[id] != "" {
		a.t.Errorf("a second connection of %s: a real agent would abort", id)
	}
	if known {
		a.live[id] = streamID
	}
	a.mu.Unlock()
	if known { // a real agent does not answer an unknown provider
		stream.Send(&rp.ProviderEvent{Type: rp.EventSubscribed, Subscribed: &rp.Subscribed{ProviderID: mesos.ResourceProviderID{Value: id}}})
		a.streams <- stream
	}
	_ = stream.Serve(r.Context(), w, streamID)
	a.mu.Lock()
	delete(a.live, id)
	a.mu.Unlock()
}

func (a *providerAgent) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// call waits for the next call and checks its type.
func (a *providerAgent) call(want rp.CallType) *rp.ProviderCall {
	a.t.Helper()
	got := await(a.t, a.calls, want.String())
	if got.Type != want {
		a.t.Fatalf("got %s, want %s", got, want)
	}
	return got
}

// subscribed waits for a subscription with that provider ID ("" for a new one) and its
// UPDATE_STATE, and returns the stream.
func (a *providerAgent) subscribed(id string) *mesosapi.EventStream {
	a.t.Helper()
	call := a.call(rp.CallSubscribe)
	if got := call.Subscribe.ResourceProviderInfo.ID.GetValue(); got != id {
		a.t.Fatalf("subscribes as %q, want %q", got, id)
	}
	stream := await(a.t, a.streams, "stream")
	a.call(rp.CallUpdateState)
	return stream
}

func await[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("no %s within %s", what, patience)
		panic("unreachable")
	}
}

// warningHook is a log hook that passes warnings and errors to a test.
type warningHook chan string

func (warningHook) Levels() []logrus.Level {
	return []logrus.Level{logrus.WarnLevel, logrus.ErrorLevel}
}

func (w warningHook) Fire(e *logrus.Entry) error {
	err, _ := e.Data[logrus.ErrorKey].(error)
	select {
	case w <- fmt.Sprintf("%s: %v", e.Message, err):
	default: // more messages than the test reads
	}
	return nil
}

func (w warningHook) want(t *testing.T, text string) {
	t.Helper()
	deadline, last := time.After(patience), ""
	for {
		select {
		case got := <-w:
			if strings.Contains(got, text) {
				return
			}
			last = got
		case <-deadline:
			t.Fatalf("no warning with %q within %s; the last was %q", text, patience, last)
		}
	}
}

func newLog() (logrus.FieldLogger, warningHook) {
	w := make(warningHook, 1000)
	log := logrus.New()
	log.SetOutput(io.Discard)
	log.AddHook(w)
	return log, w
}

func host(t *testing.T) gpu.Host {
	t.Helper()
	h, err := simulated.NewHost("2xV100,1xK80", "test")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// daemon is a running call of Run.
type daemon struct {
	config ProviderConfig
	warned warningHook
	stop   context.CancelFunc
	done   chan error
}

func config(t *testing.T, a *providerAgent) (ProviderConfig, warningHook) {
	t.Helper()
	log, warned := newLog()
	return ProviderConfig{
		AgentURL: a.server.URL + "/slave(1)", StateDir: t.TempDir(), Host: host(t), Log: log,
		BackoffMin: time.Millisecond, BackoffMax: 8 * time.Millisecond,
	}, warned
}

func start(t *testing.T, c ProviderConfig, warned warningHook) *daemon {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	d := &daemon{config: c, warned: warned, stop: stop, done: make(chan error, 1)}
	go func() { d.done <- Run(ctx, c) }()
	t.Cleanup(stop)
	return d
}

// end stops the daemon and checks that Run returns no error.
func (d *daemon) end(t *testing.T) {
	t.Helper()
	d.stop()
	if err := await(t, d.done, "end of Run"); err != nil {
		t.Errorf("Run: %v", err)
	}
}

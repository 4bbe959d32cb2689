package master

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/mesosapi"
)

// patience is the timeout of every wait. A test that reaches it fails.
const patience = time.Minute

// sink is an HTTP response in memory, so that streams work with a fake clock. It
// decodes records into events.
type sink[E any] struct {
	header http.Header
	ready  chan struct{} // closed with the answer's header
	status int
	once   sync.Once
	body   bytes.Buffer // of an answer that is no stream
	rest   []byte
	events chan *E
	ended  chan struct{}
}

func newSink[E any]() *sink[E] {
	return &sink[E]{header: http.Header{}, ready: make(chan struct{}), events: make(chan *E, 4096), ended: make(chan struct{})}
}

func (s *sink[E]) Header() http.Header { return s.header }
func (s *sink[E]) Flush()              {}

func (s *sink[E]) WriteHeader(status int) {
	s.once.Do(func() { s.status = status; close(s.ready) })
}

func (s *sink[E]) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	if s.status != http.StatusOK {
		return s.body.Write(p)
	}
	s.rest = append(s.rest, p...)
	for {
		record, rest, ok := mesosapi.CutRecord(s.rest)
		if !ok {
			return len(p), nil
		}
		e := new(E)
		if err := proto.Unmarshal(record, any(e).(proto.Message)); err != nil {
			return 0, err
		}
		s.events <- e
		s.rest = rest
	}
}

// next returns the next event that want accepts. It drops earlier events.
func (s *sink[E]) next(t *testing.T, what string, want func(*E) bool) *E {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case e := <-s.events:
			if want(e) {
				return e
			}
		case <-timeout:
			t.Fatalf("no %s came", what)
		}
	}
}

// open posts a call whose response is a stream.
func open[E any](t *testing.T, m *EmbeddedMaster, path string, call proto.Message) (*sink[E], context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := newSink[E]()
	go func() {
		defer close(s.ended)
		m.Handler().ServeHTTP(s, request(call, path, "").WithContext(ctx))
	}()
	t.Cleanup(func() { cancel(); <-s.ended })
	<-s.ready
	return s, cancel
}

func request(call proto.Message, path, streamID string) *http.Request {
	body, err := proto.Marshal(call)
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", mesosapi.Protobuf)
	r.Header.Set("Accept", mesosapi.Protobuf)
	if streamID != "" {
		r.Header.Set(mesosapi.HeaderStreamID, streamID)
	}
	return r
}

// masterClient is a subscribed framework.
type masterClient struct {
	*sink[scheduler.Event]
	m          *EmbeddedMaster
	id         *mesos.FrameworkID
	disconnect context.CancelFunc
}

func info(capabilities ...mesos.FrameworkInfo_Capability_Type) *mesos.FrameworkInfo {
	out := &mesos.FrameworkInfo{User: "root", Name: "test", Roles: []string{"*"}, FailoverTimeout: proto.Float64(60)}
	all := append(capabilities, mesos.FrameworkInfo_Capability_MULTI_ROLE, mesos.FrameworkInfo_Capability_GPU_RESOURCES)
	for _, c := range all {
		out.Capabilities = append(out.Capabilities, mesos.FrameworkInfo_Capability{Type: c})
	}
	return out
}

func subscribe(t *testing.T, m *EmbeddedMaster, f *mesos.FrameworkInfo, suppressed ...string) *masterClient {
	t.Helper()
	call := &scheduler.Call{
		Type: scheduler.Call_SUBSCRIBE, FrameworkID: f.ID,
		Subscribe: &scheduler.Call_Subscribe{FrameworkInfo: f, SuppressedRoles: suppressed},
	}
	s, cancel := open[scheduler.Event](t, m, "/api/v1/scheduler", call)
	c := &masterClient{sink: s, m: m, disconnect: func() { cancel(); <-s.ended }}
	first := c.next(t, "first event", func(*scheduler.Event) bool { return true })
	if first.Type == scheduler.Event_SUBSCRIBED {
		c.id = first.Subscribed.FrameworkID
	} else {
		c.events <- first // a refusal, for the test to read
	}
	return c
}

// post makes a call and checks the response's status.
func (c *masterClient) post(t *testing.T, want int, call *scheduler.Call) string {
	t.Helper()
	call.FrameworkID = c.id
	w := httptest.NewRecorder()
	c.m.Handler().ServeHTTP(w, request(call, "/api/v1/scheduler", c.header.Get(mesosapi.HeaderStreamID)))
	if w.Code != want {
		t.Fatalf("%v: got %d %s, want %d", call.Type, w.Code, w.Body, want)
	}
	return w.Body.String()
}

func (c *masterClient) event(t *testing.T, kind scheduler.Event_Type) *scheduler.Event {
	t.Helper()
	return c.next(t, kind.String(), func(e *scheduler.Event) bool { return e.Type == kind })
}

func (c *masterClient) offers(t *testing.T) []mesos.Offer {
	t.Helper()
	return c.event(t, scheduler.Event_OFFERS).Offers.Offers
}

func (c *masterClient) update(t *testing.T, task string) mesos.TaskStatus {
	t.Helper()
	e := c.next(t, "update of "+task, func(e *scheduler.Event) bool {
		return e.Type == scheduler.Event_UPDATE && e.Update.Status.TaskID.Value == task
	})
	return e.Update.Status
}

// quiet fails if an event of that type has arrived. Call it when no event is on
// its way.
func (c *masterClient) quiet(t *testing.T, kind scheduler.Event_Type) {
	t.Helper()
	for {
		select {
		case e := <-c.events:
			if e.Type == kind {
				t.Fatalf("got unwanted %v", e)
			}
		default:
			return
		}
	}
}

func (c *masterClient) accept(t *testing.T, refuse float64, offers []mesos.Offer, ops ...mesos.Offer_Operation) {
	t.Helper()
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_ACCEPT, Accept: &scheduler.Call_Accept{
		OfferIDs: ids(offers), Operations: ops, Filters: &mesos.Filters{RefuseSeconds: &refuse},
	}})
}

func (c *masterClient) decline(t *testing.T, refuse float64, offers []mesos.Offer) {
	t.Helper()
	c.post(t, http.StatusAccepted, &scheduler.Call{Type: scheduler.Call_DECLINE, Decline: &scheduler.Call_Decline{
		OfferIDs: ids(offers), Filters: &mesos.Filters{RefuseSeconds: &refuse},
	}})
}

func ids(offers []mesos.Offer) (out []mesos.OfferID) {
	for _, o := range offers {
		out = append(out, o.ID)
	}
	return out
}

func launch(tasks ...mesos.TaskInfo) mesos.Offer_Operation {
	return mesos.Offer_Operation{Type: mesos.Offer_Operation_LAUNCH, Launch: &mesos.Offer_Operation_Launch{TaskInfos: tasks}}
}

// res parses "cpus:2;gpus:1;gpu_ids:{A,B}".
func res(text string) []mesos.Resource {
	var out []mesos.Resource
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, ":")
		r := mesos.Resource{Name: name, Type: mesos.SCALAR.Enum()}
		if items, found := strings.CutPrefix(value, "{"); found {
			r.Type = mesos.SET.Enum()
			r.Set = &mesos.Value_Set{Item: strings.Split(strings.TrimSuffix(items, "}"), ",")}
		} else {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				panic(fmt.Sprintf("resource %q: %v", part, err))
			}
			r.Scalar = &mesos.Value_Scalar{Value: v}
		}
		out = append(out, r)
	}
	return out
}

func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

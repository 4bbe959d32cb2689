// Package tap stands between a scheduler and its master, the embedded one or
// Apache Mesos's. It keeps the calls of the one and the events of the other,
// and changes them where a test says so: it refuses, loses or holds calls,
// redirects them to another master, and drops, repeats, delays or makes up
// events. The master behind it knows nothing of that and never misbehaves
// itself. It reads protobuf only.
package tap

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gogo/protobuf/proto"
	operator "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/wire"
)

// Call is a scheduler's call as it came.
type Call struct {
	*scheduler.Call
	// StreamID is the header, Conn the connection's remote address.
	StreamID, Conn string
	At             time.Time
	// Stream numbers the subscription that was open when it came, from 1.
	Stream int
	// Status is what was answered; 0 while nothing is, and for good where
	// the connection was closed instead.
	Status int
}

// Event is an event as the scheduler got it, on subscription number Stream.
type Event struct {
	*scheduler.Event
	Stream int
	At     time.Time
}

// Fault answers a call in the master's place, or lets it do so.
type Fault func(w http.ResponseWriter, r *http.Request, master http.Handler)

// Filter turns an event into what the scheduler gets instead; nil is nothing.
type Filter func(*scheduler.Event) []*scheduler.Event

// Tap is an http.Handler in front of a master's.
type Tap struct {
	master http.Handler

	mu     sync.Mutex
	leader string // where it sends everybody; itself, if empty
	faults []fault
	filter Filter
	calls  []*Call
	others []*operator.Call
	events []Event
	more   chan struct{} // closed and replaced at each call and event
	stream *stream       // the newest subscription, open or not
	opened int
}

type fault struct {
	match func(*Call) bool
	left  int // below zero: for ever
	do    Fault
}

// New puts a Tap before a master.
func New(master http.Handler) *Tap { return &Tap{master: master, more: make(chan struct{})} }

// Follow makes this master say that another one leads: url, or itself again
// if that is empty. Its open subscription ends.
func (t *Tap) Follow(url string) {
	t.mu.Lock()
	t.leader = url
	t.mu.Unlock()
	if url != "" {
		t.Cut()
	}
}

// Break has the next n calls that match answered by f; all, if n is below
// zero. Faults set earlier come first.
func (t *Tap) Break(n int, match func(*Call) bool, f Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, fault{match, n, f})
}

// Mend ends all faults and the filter.
func (t *Tap) Mend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults, t.filter = nil, nil
}

// Filter passes all events from now on through f; nil ends that. Events made
// up by Send are not filtered.
func (t *Tap) Filter(f Filter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.filter = f
}

// Of matches calls of a type.
func Of(kind scheduler.Call_Type) func(*Call) bool {
	return func(c *Call) bool { return c.GetType() == kind }
}

// ServeHTTP implements http.Handler.
func (t *Tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/redirect"):
		w.Header().Set("Location", strings.TrimPrefix(t.leaderOr("http://"+r.Host), "http:"))
		w.WriteHeader(http.StatusTemporaryRedirect)
	case strings.HasSuffix(r.URL.Path, "/api/v1/scheduler"):
		t.scheduler(w, r)
	case t.leaderOr("") != "":
		Redirect(t.leaderOr(""))(w, r, nil)
	case strings.HasSuffix(r.URL.Path, "/api/v1"):
		t.operator(w, r)
	default:
		t.master.ServeHTTP(w, r)
	}
}

// operator notes an operator's call; one that is no protobuf passes unseen.
func (t *Tap) operator(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, fmt.Sprintf("tap: read call: %v", err), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := &operator.Call{}
	if proto.Unmarshal(body, call) == nil {
		t.mu.Lock()
		t.others = append(t.others, call)
		t.wake()
		t.mu.Unlock()
	}
	t.master.ServeHTTP(w, r)
}

// OperatorCalls are those that came so far.
func (t *Tap) OperatorCalls() []*operator.Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.others)
}

func (t *Tap) leaderOr(own string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leader != "" {
		return t.leader
	}
	return own
}

func (t *Tap) scheduler(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	call := &Call{Call: &scheduler.Call{}, StreamID: r.Header.Get(wire.HeaderStreamID), Conn: r.RemoteAddr, At: time.Now()}
	if err == nil {
		err = proto.Unmarshal(body, call.Call)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("tap: read call: %v", err), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	do := t.take(call)
	answer := &statusWriter{ResponseWriter: w, tap: t, call: call}
	if call.GetType() == scheduler.Call_SUBSCRIBE {
		s := t.open(r)
		defer s.close()
		do(&eventWriter{statusWriter: answer, stream: s}, r.WithContext(s.ctx), t.master)
		return
	}
	do(answer, r, t.master)
}

// take notes the call and finds what is to answer it.
func (t *Tap) take(call *Call) Fault {
	t.mu.Lock()
	defer t.mu.Unlock()
	call.Stream = t.opened
	t.calls = append(t.calls, call)
	t.wake()
	if t.leader != "" {
		return Redirect(t.leader)
	}
	for i := range t.faults {
		f := &t.faults[i]
		if f.left != 0 && f.match(call) {
			f.left--
			return f.do
		}
	}
	return Forward
}

// wake is called with mu held.
func (t *Tap) wake() {
	close(t.more)
	t.more = make(chan struct{})
}

// Calls are those that came so far, with their answers.
func (t *Tap) Calls() []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Call, len(t.calls))
	for i, c := range t.calls {
		out[i] = *c
	}
	return out
}

// Events are those that the scheduler got.
func (t *Tap) Events() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.events)
}

// Await waits until what has come so far satisfies done. It is called again
// at each call, answer and event.
func (t *Tap) Await(ctx context.Context, done func() bool) error {
	for {
		t.mu.Lock()
		more := t.more
		t.mu.Unlock()
		if done() {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("tap: await: %w", context.Cause(ctx))
		}
	}
}

// Package faultproxy is a proxy between a scheduler and its master, the embedded
// one or Apache Mesos. It records the scheduler's calls and the master's events,
// and injects the faults that a test requests: it rejects, loses or delays
// calls, redirects them to another master, and drops, repeats, delays or adds
// events. The master behind it is unchanged. It reads protobuf only. AgentProxy is
// the network between the embedded master and an agent.
package faultproxy

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

	"mesos-gpu/internal/mesosapi"
)

// RecordedCall is a call as received from the scheduler.
type RecordedCall struct {
	*scheduler.Call
	// StreamID is the Mesos-Stream-Id header and Conn the connection's remote
	// address.
	StreamID, Conn string
	At             time.Time
	// Stream is the number of the subscription that was open when the call
	// arrived, starting at 1.
	Stream int
	// Status is the HTTP status of the answer. It is 0 before the answer and if
	// the connection was closed without one.
	Status int
}

// RecordedEvent is an event as sent to the scheduler on subscription number
// Stream.
type RecordedEvent struct {
	*scheduler.Event
	Stream int
	At     time.Time
}

// CallFault handles a call instead of the master, or forwards it.
type CallFault func(w http.ResponseWriter, r *http.Request, master http.Handler)

// EventFilter replaces an event by the returned events; nil drops it.
type EventFilter func(*scheduler.Event) []*scheduler.Event

// Proxy is an http.Handler in front of a master's.
type Proxy struct {
	master http.Handler

	mu     sync.Mutex
	leader string // URL for redirects; empty: this master leads
	faults []scheduledFault
	filter EventFilter
	calls  []*RecordedCall
	others []*operator.Call
	events []RecordedEvent
	more   chan struct{}  // closed and replaced at each call and event
	stream *proxiedStream // the newest subscription, open or closed
	opened int
}

type scheduledFault struct {
	match func(*RecordedCall) bool
	left  int // remaining uses; negative: unlimited
	do    CallFault
}

// New returns a Proxy in front of a master.
func New(master http.Handler) *Proxy { return &Proxy{master: master, more: make(chan struct{})} }

// ReportLeader makes this master redirect to the leader at url. An empty url
// makes it the leader again. It ends the open subscription.
func (p *Proxy) ReportLeader(url string) {
	p.mu.Lock()
	p.leader = url
	p.mu.Unlock()
	if url != "" {
		p.CutStream()
	}
}

// InjectFault applies f to the next n calls that match, or to all of them if n
// is negative. Earlier faults take precedence.
func (p *Proxy) InjectFault(n int, match func(*RecordedCall) bool, f CallFault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, scheduledFault{match, n, f})
}

// ClearFaults removes all faults and the event filter.
func (p *Proxy) ClearFaults() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.filter = nil, nil
}

// SetFilter passes all further events through f; nil removes the filter. Events
// from InjectEvents are not filtered.
func (p *Proxy) SetFilter(f EventFilter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filter = f
}

// MatchType matches calls of a type.
func MatchType(kind scheduler.Call_Type) func(*RecordedCall) bool {
	return func(c *RecordedCall) bool { return c.GetType() == kind }
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/redirect"):
		w.Header().Set("Location", strings.TrimPrefix(p.leaderOr("http://"+r.Host), "http:"))
		w.WriteHeader(http.StatusTemporaryRedirect)
	case strings.HasSuffix(r.URL.Path, "/api/v1/scheduler"):
		p.serveScheduler(w, r)
	case p.leaderOr("") != "":
		RedirectTo(p.leaderOr(""))(w, r, nil)
	case strings.HasSuffix(r.URL.Path, "/api/v1"):
		p.serveOperator(w, r)
	default:
		p.master.ServeHTTP(w, r)
	}
}

// serveOperator records an operator's call. It forwards calls that are not
// protobuf without recording them.
func (p *Proxy) serveOperator(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, fmt.Sprintf("tap: read call: %v", err), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := &operator.Call{}
	if proto.Unmarshal(body, call) == nil {
		p.mu.Lock()
		p.others = append(p.others, call)
		p.notifyWaiters()
		p.mu.Unlock()
	}
	p.master.ServeHTTP(w, r)
}

// OperatorCalls returns the operator calls received so far.
func (p *Proxy) OperatorCalls() []*operator.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.others)
}

func (p *Proxy) leaderOr(own string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leader != "" {
		return p.leader
	}
	return own
}

func (p *Proxy) serveScheduler(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	call := &RecordedCall{Call: &scheduler.Call{}, StreamID: r.Header.Get(mesosapi.HeaderStreamID), Conn: r.RemoteAddr, At: time.Now()}
	if err == nil {
		err = proto.Unmarshal(body, call.Call)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("tap: read call: %v", err), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	do := p.recordCall(call)
	answer := &statusWriter{ResponseWriter: w, proxy: p, call: call}
	if call.GetType() == scheduler.Call_SUBSCRIBE {
		s := p.openStream(r)
		defer s.close()
		do(&eventWriter{statusWriter: answer, stream: s}, r.WithContext(s.ctx), p.master)
		return
	}
	do(answer, r, p.master)
}

// recordCall records the call and returns the fault that applies to it.
func (p *Proxy) recordCall(call *RecordedCall) CallFault {
	p.mu.Lock()
	defer p.mu.Unlock()
	call.Stream = p.opened
	p.calls = append(p.calls, call)
	p.notifyWaiters()
	if p.leader != "" {
		return RedirectTo(p.leader)
	}
	for i := range p.faults {
		f := &p.faults[i]
		if f.left != 0 && f.match(call) {
			f.left--
			return f.do
		}
	}
	return ForwardCall
}

// notifyWaiters wakes all waiters. The caller must hold mu.
func (p *Proxy) notifyWaiters() {
	close(p.more)
	p.more = make(chan struct{})
}

// Calls returns the calls received so far, with the status of their answers.
func (p *Proxy) Calls() []RecordedCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]RecordedCall, len(p.calls))
	for i, c := range p.calls {
		out[i] = *c
	}
	return out
}

// Events returns the events sent to the scheduler so far.
func (p *Proxy) Events() []RecordedEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// AwaitCondition waits until done returns true. It calls done after each call,
// answer and event.
func (p *Proxy) AwaitCondition(ctx context.Context, done func() bool) error {
	for {
		p.mu.Lock()
		more := p.more
		p.mu.Unlock()
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

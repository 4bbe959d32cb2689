package faultproxy

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/mesos/mesos-go/api/v1/lib/recordio"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/mesosapi"
)

// proxiedStream is a subscription that passes through the proxy.
type proxiedStream struct {
	proxy  *Proxy
	ctx    context.Context
	close  context.CancelFunc
	path   string
	number int
	ready  chan struct{} // closed when the response has started
	once   sync.Once
	id     string // the Mesos-Stream-Id header
	closed bool

	mu sync.Mutex // guards writes
	w  http.ResponseWriter
}

func (p *Proxy) openStream(r *http.Request) *proxiedStream {
	ctx, cancel := context.WithCancel(r.Context())
	s := &proxiedStream{proxy: p, ctx: ctx, path: r.URL.Path, ready: make(chan struct{})}
	s.close = func() {
		s.mu.Lock()
		s.closed = true // its writer is no longer valid
		s.mu.Unlock()
		cancel()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened++
	s.number = p.opened
	p.stream = s
	return s
}

// CutStream closes the newest subscription like a broken connection.
func (p *Proxy) CutStream() {
	p.mu.Lock()
	s := p.stream
	p.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// InjectEvents sends events to the scheduler that the master did not send. It
// does nothing without an open subscription.
func (p *Proxy) InjectEvents(events ...*scheduler.Event) {
	p.mu.Lock()
	s := p.stream
	p.mu.Unlock()
	if s == nil {
		return
	}
	select {
	case <-s.ready:
		s.writeEvents(events)
	case <-s.ctx.Done():
	}
}

// MakeCall makes a call to the master as the scheduler, on its newest
// subscription, and returns the status of the answer. The call is not recorded.
func (p *Proxy) MakeCall(call *scheduler.Call) (int, error) {
	p.mu.Lock()
	s := p.stream
	p.mu.Unlock()
	body, err := proto.Marshal(call)
	if err != nil {
		return 0, fmt.Errorf("tap: make call %s: %w", call.GetType(), err)
	}
	if s == nil {
		return 0, fmt.Errorf("tap: make call %s: no scheduler has subscribed", call.GetType())
	}
	select {
	case <-s.ready:
	case <-s.ctx.Done():
		return 0, fmt.Errorf("tap: make call %s: the subscription has ended", call.GetType())
	}
	r := httptest.NewRequest(http.MethodPost, s.path, bytes.NewReader(body))
	r.Header.Set("Content-Type", mesosapi.Protobuf)
	r.Header.Set("Accept", mesosapi.Protobuf)
	r.Header.Set(mesosapi.HeaderStreamID, s.id)
	w := httptest.NewRecorder()
	p.master.ServeHTTP(w, r)
	return w.Code, nil
}

// writeEvents sends events without filtering them and without other events
// between them. It ignores write errors: the scheduler has disconnected.
func (s *proxiedStream) writeEvents(events []*scheduler.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		body, err := proto.Marshal(e)
		if err != nil || s.closed {
			return
		}
		_ = recordio.NewWriter(s.w).WriteFrame(body)
		s.proxy.recordEvent(RecordedEvent{Event: e, Stream: s.number, At: time.Now()})
	}
	if !s.closed {
		_ = http.NewResponseController(s.w).Flush() // see above
	}
}

func (p *Proxy) recordEvent(e RecordedEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, e)
	p.notifyWaiters()
}

// eventWriter decodes the master's events and writes the filtered ones.
type eventWriter struct {
	*statusWriter
	stream *proxiedStream
	rest   []byte
}

func (w *eventWriter) WriteHeader(status int) {
	w.stream.once.Do(func() {
		w.stream.w, w.stream.id = w.statusWriter, w.Header().Get(mesosapi.HeaderStreamID)
		w.Header().Del("Content-Length")
		w.statusWriter.WriteHeader(status)
		close(w.stream.ready)
	})
}

func (w *eventWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.call.Status != http.StatusOK {
		return w.statusWriter.Write(p)
	}
	w.rest = append(w.rest, p...)
	for {
		record, rest, ok := mesosapi.CutRecord(w.rest)
		if !ok {
			return len(p), w.stream.ctx.Err()
		}
		e := &scheduler.Event{}
		if err := proto.Unmarshal(record, e); err != nil {
			return 0, fmt.Errorf("tap: read event: %w", err)
		}
		w.rest = bytes.Clone(rest)
		w.stream.passEvent(e)
	}
}

func (s *proxiedStream) passEvent(e *scheduler.Event) {
	s.proxy.mu.Lock()
	filter := s.proxy.filter
	s.proxy.mu.Unlock()
	events := []*scheduler.Event{e}
	if filter != nil {
		events = filter(e)
	}
	s.writeEvents(events)
}

// Flush sends the header. Events are flushed when they are written.
func (w *eventWriter) Flush() {
	w.WriteHeader(http.StatusOK)
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	if !w.stream.closed {
		_ = http.NewResponseController(w.statusWriter.ResponseWriter).Flush() // the scheduler may have disconnected
	}
}

// statusWriter records the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	proxy *Proxy
	call  *RecordedCall
}

func (w *statusWriter) WriteHeader(status int) {
	w.proxy.mu.Lock()
	if w.call.Status == 0 {
		w.call.Status = status
		w.proxy.notifyWaiters()
	}
	w.proxy.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	w.proxy.mu.Lock()
	status := w.call.Status
	w.proxy.mu.Unlock()
	if status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets a ResponseController access the underlying writer.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

package mesostest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/gogo/protobuf/proto"
	"github.com/mesos/mesos-go/api/v1/lib/recordio"
)

const (
	protobuf = "application/x-protobuf"
	streamID = "Mesos-Stream-Id"
)

// readCall reads a call in protobuf, the only codec that the framework uses.
func readCall(w http.ResponseWriter, r *http.Request, call proto.Message) bool {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Type") == protobuf {
		err = proto.Unmarshal(body, call)
	}
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != protobuf {
		http.Error(w, "expecting a POST of "+protobuf, http.StatusBadRequest)
		return false
	}
	return true
}

func writeAnswer(w http.ResponseWriter, m proto.Message) {
	body, err := proto.Marshal(m)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", protobuf)
	_, _ = w.Write(body) // fails only if the client disconnected
}

// eventStream is one subscription. It queues events and writes them in order.
type eventStream struct {
	mu     sync.Mutex
	queue  bytes.Buffer // RecordIO
	closed bool
	wake   chan struct{}
}

func newStream() *eventStream { return &eventStream{wake: make(chan struct{}, 1)} }

func (s *eventStream) sendMessage(m proto.Message) {
	body, err := proto.Marshal(m)
	if err != nil {
		panic(err) // the test made an invalid event
	}
	s.mu.Lock()
	_ = recordio.NewWriter(&s.queue).WriteFrame(body) // writing to a buffer never fails
	s.mu.Unlock()
	s.wakeWriter()
}

// closeAfterSent ends the stream once all queued events are written.
func (s *eventStream) closeAfterSent() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.wakeWriter()
}

func (s *eventStream) wakeWriter() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *eventStream) takeQueued() (data []byte, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data = bytes.Clone(s.queue.Bytes())
	s.queue.Reset()
	return data, s.closed
}

// writeQueued writes events until the stream is closed or the client disconnects.
func (s *eventStream) writeQueued(ctx context.Context, w http.ResponseWriter, id string) {
	w.Header().Set("Content-Type", protobuf)
	w.Header().Set(streamID, id)
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	for {
		data, closed := s.takeQueued()
		if _, err := w.Write(data); err != nil || out.Flush() != nil || closed {
			return
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// Package mesosapi is the server side of Mesos's v1 HTTP APIs, for the embedded
// master and agent and for test doubles. It reads calls as protobuf or JSON by
// their Content-Type, and writes answers and RecordIO event streams in the media
// type of the Accept header. It encodes messages and does not interpret them.
package mesosapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gogo/protobuf/proto"
	"github.com/mesos/mesos-go/api/v1/lib/recordio"
)

// Media types of Mesos's v1 HTTP APIs.
const (
	Protobuf = "application/x-protobuf"
	JSON     = "application/json"
	RecordIO = "application/recordio"
)

// HeaderMessageAccept requests RecordIO with messages of the given media type.
const HeaderMessageAccept = "Message-Accept"

// HeaderStreamID identifies the subscription of a call.
const HeaderStreamID = "Mesos-Stream-Id"

// maxCall limits a request body in bytes. A launch of thousands of tasks fits.
const maxCall = 64 << 20

// StatusError is an unsuccessful HTTP response.
type StatusError struct {
	Status  int
	Message string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, http.StatusText(e.Status), e.Message)
}

// Errorf returns a *StatusError.
func Errorf(status int, format string, args ...any) error {
	return &StatusError{Status: status, Message: fmt.Sprintf(format, args...)}
}

// WriteError answers with err's status. An err that is not a *StatusError comes
// from reading the call and becomes a 400.
func WriteError(w http.ResponseWriter, err error) {
	status, message := http.StatusBadRequest, err.Error()
	var e *StatusError
	if errors.As(err, &e) {
		status, message = e.Status, e.Message
	}
	http.Error(w, message, status)
}

// ReadCall decodes the body into call by the request's Content-Type. Its errors
// are *StatusError values: 405, 415, 406 or 400.
func ReadCall(r *http.Request, call proto.Message) error {
	if r.Method != http.MethodPost {
		return Errorf(http.StatusMethodNotAllowed, "expecting POST, received %s", r.Method)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxCall))
	if err != nil {
		return Errorf(http.StatusBadRequest, "read body: %v", err)
	}
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch media {
	case Protobuf:
		err = proto.Unmarshal(body, call)
	case JSON:
		err = json.Unmarshal(body, call)
	case "":
		return Errorf(http.StatusBadRequest, "expecting Content-Type to be present")
	default:
		return Errorf(http.StatusUnsupportedMediaType, "expecting Content-Type of %s or %s", JSON, Protobuf)
	}
	if err != nil {
		return Errorf(http.StatusBadRequest, "parse %s body: %v", media, err)
	}
	if _, err := acceptedMedia(r); err != nil {
		return err
	}
	return nil
}

// acceptedMedia selects the media type of the answer. It prefers JSON if the
// client accepts both, as Mesos does.
func acceptedMedia(r *http.Request) (string, error) {
	accept := r.Header.Values("Accept")
	if message := r.Header.Get(HeaderMessageAccept); message != "" {
		accept = []string{message}
	}
	if len(accept) == 0 {
		return JSON, nil
	}
	found := ""
	for _, list := range accept {
		for part := range strings.SplitSeq(list, ",") {
			media, _, _ := mime.ParseMediaType(part)
			switch media {
			case JSON, "*/*", "application/*", "":
				return JSON, nil
			case Protobuf:
				found = Protobuf
			}
		}
	}
	if found != "" {
		return found, nil
	}
	return "", Errorf(http.StatusNotAcceptable, "expecting Accept to allow %s or %s", Protobuf, JSON)
}

func encodeMessage(media string, m proto.Message) ([]byte, error) {
	if media == Protobuf {
		return proto.Marshal(m)
	}
	body, err := json.Marshal(m)
	if err != nil || !bytes.Contains(body, []byte("null")) {
		return body, err
	}
	// mesos-go encodes empty lists as null. Mesos omits them, and clients that
	// iterate over present fields rely on it.
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(withoutNulls(value))
}

func withoutNulls(value any) any {
	switch v := value.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, member any) bool { return member == nil })
		for key, member := range v {
			v[key] = withoutNulls(member)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return value
}

// WriteResponse answers 200 with one message.
func WriteResponse(w http.ResponseWriter, r *http.Request, m proto.Message) {
	media, err := acceptedMedia(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	body, err := encodeMessage(media, m)
	if err != nil {
		WriteError(w, Errorf(http.StatusInternalServerError, "encode answer: %v", err))
		return
	}
	w.Header().Set("Content-Type", media)
	_, _ = w.Write(body) // the client may have disconnected
}

// EventStream is one subscription's RecordIO event stream. Events are queued by
// Send, which never blocks, and written by Serve in order.
type EventStream struct {
	media    string
	framed   bool          // the client requested RecordIO by name
	patience time.Duration // closeTimeout, except in tests
	wake     chan struct{}
	done     chan struct{} // closed when closed is set

	mu     sync.Mutex
	queue  []proto.Message
	closed bool
}

// NewStream returns a stream in a media type that the request accepts.
func NewStream(r *http.Request) (*EventStream, error) {
	media, err := acceptedMedia(r)
	if err != nil {
		return nil, err
	}
	return &EventStream{
		media:    media,
		framed:   r.Header.Get(HeaderMessageAccept) != "",
		patience: closeTimeout,
		wake:     make(chan struct{}, 1),
		done:     make(chan struct{}),
	}, nil
}

// maxQueue limits the queued events of a client that does not read. Beyond it
// the stream ends and the client must subscribe again.
const maxQueue = 100_000

// closeTimeout limits the time in which a client can read the remaining events
// after Close.
const closeTimeout = 10 * time.Second

// Send queues an event. After Close it does nothing.
func (s *EventStream) Send(m proto.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if len(s.queue) == maxQueue {
		s.closed = true
		close(s.done)
		return
	}
	s.queue = append(s.queue, m)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close ends the stream after the queued events have been written.
func (s *EventStream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
}

// Serve writes header and events until ctx ends (the client disconnects), a
// write fails or Close is called. A non-empty streamID is sent in the header.
func (s *EventStream) Serve(ctx context.Context, w http.ResponseWriter, streamID string) error {
	s.writeHeader(w)
	if streamID != "" {
		w.Header().Set(HeaderStreamID, streamID)
	}
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	defer s.limitWritesAfterClose(flush)()
	if err := flush.Flush(); err != nil {
		return fmt.Errorf("flush stream header: %w", err)
	}
	for closing := false; ; {
		for _, m := range s.takeQueued() {
			if err := s.writeMessage(w, m); err != nil {
				return err
			}
		}
		if err := flush.Flush(); err != nil {
			return fmt.Errorf("flush event: %w", err)
		}
		if closing {
			return nil
		}
		select {
		case <-s.wake:
		case <-s.done:
			closing = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// writeHeader sends the response header.
func (s *EventStream) writeHeader(w http.ResponseWriter) {
	w.Header().Set("Content-Type", s.media)
	if s.framed {
		w.Header().Set("Content-Type", RecordIO)
		w.Header().Set("Message-Content-Type", s.media)
	}
}

// ServeFrom writes the messages from a channel until it is closed, ctx ends
// (the client disconnects) or a write fails. Unlike Send, the channel blocks
// the sender while the client does not read.
func (s *EventStream) ServeFrom(ctx context.Context, w http.ResponseWriter, messages <-chan proto.Message) error {
	s.writeHeader(w)
	flush := http.NewResponseController(w)
	for {
		if err := flush.Flush(); err != nil {
			return fmt.Errorf("flush stream: %w", err)
		}
		select {
		case m, ok := <-messages:
			if !ok {
				return nil
			}
			if err := s.writeMessage(w, m); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// limitWritesAfterClose interrupts blocked writes closeTimeout after Close. A
// writer without deadlines (a test's recorder) never blocks.
func (s *EventStream) limitWritesAfterClose(w *http.ResponseController) (stop func()) {
	served, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-s.done:
			_ = w.SetWriteDeadline(time.Now().Add(s.patience))
		case <-served:
		}
	}()
	return func() {
		close(served)
		<-ended
		_ = w.SetWriteDeadline(time.Time{}) // the connection may be reused
	}
}

// CutRecord splits the first RecordIO record from data. ok is false if data has
// no complete record.
func CutRecord(data []byte) (record, rest []byte, ok bool) {
	line, after, found := bytes.Cut(data, []byte("\n"))
	n, err := strconv.Atoi(string(line))
	if !found || err != nil || n < 0 || len(after) < n {
		return nil, data, false
	}
	return after[:n], after[n:], true
}

func (s *EventStream) takeQueued() []proto.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queue
	s.queue = nil
	return queue
}

func (s *EventStream) writeMessage(w io.Writer, m proto.Message) error {
	body, err := encodeMessage(s.media, m)
	if err != nil {
		return fmt.Errorf("encode event: %w", err)
	}
	if err := recordio.NewWriter(w).WriteFrame(body); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}

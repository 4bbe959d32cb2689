package mesosapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

func request(method, contentType, accept, body string) *http.Request {
	r := httptest.NewRequest(method, "/api/v1/scheduler", strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	return r
}

func TestReadCall(t *testing.T) {
	want := &scheduler.Call{Type: scheduler.Call_TEARDOWN, FrameworkID: &mesos.FrameworkID{Value: "f"}}
	packed, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*http.Request{
		"protobuf":     request(http.MethodPost, Protobuf, Protobuf, string(packed)),
		"json":         request(http.MethodPost, JSON, "", `{"type": "TEARDOWN", "framework_id": {"value": "f"}}`),
		"with charset": request(http.MethodPost, JSON+"; charset=utf-8", "*/*", `{"type": "TEARDOWN", "framework_id": {"value": "f"}}`),
	} {
		got := &scheduler.Call{}
		if err := ReadCall(r, got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestReadCallRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		r      *http.Request
		status int
	}{
		{"GET", request(http.MethodGet, JSON, "", "{}"), http.StatusMethodNotAllowed},
		{"no type", request(http.MethodPost, "", "", "{}"), http.StatusBadRequest},
		{"text", request(http.MethodPost, "text/plain", "", "{}"), http.StatusUnsupportedMediaType},
		{"half a document", request(http.MethodPost, JSON, "", `{"type":`), http.StatusBadRequest},
		{"noise", request(http.MethodPost, Protobuf, "", "\xff\xff"), http.StatusBadRequest},
		{"an answer in text", request(http.MethodPost, JSON, "text/html", `{"type": "TEARDOWN"}`), http.StatusNotAcceptable},
	} {
		err := ReadCall(c.r, &scheduler.Call{})
		var e *StatusError
		if !errors.As(err, &e) || e.Status != c.status {
			t.Errorf("%s: got %v, want status %d", c.name, err, c.status)
		}
		answer := httptest.NewRecorder()
		WriteError(answer, fmt.Errorf("wrapped: %w", err))
		if answer.Code != c.status {
			t.Errorf("%s: answered %d, want %d", c.name, answer.Code, c.status)
		}
	}
}

func heartbeat() *scheduler.Event { return &scheduler.Event{Type: scheduler.Event_HEARTBEAT} }

// serve serves a stream with a real server and returns the client's response.
func serve(t *testing.T, s *EventStream) (*http.Response, <-chan error) {
	t.Helper()
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { ended <- s.Serve(r.Context(), w, "id") }))
	t.Cleanup(server.Close)
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp, ended
}

func frame(t *testing.T, r *bufio.Reader) []byte {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		t.Fatal(err)
	}
	return body
}

func TestStreamWritesWhatWasSentBeforeItCloses(t *testing.T) {
	s, err := NewStream(request(http.MethodPost, JSON, JSON, ""))
	if err != nil {
		t.Fatal(err)
	}
	resp, ended := serve(t, s)
	if got := resp.Header.Get(HeaderStreamID); got != "id" {
		t.Errorf("stream id %q", got)
	}
	s.Send(heartbeat())
	s.Send(&scheduler.Event{Type: scheduler.Event_RESCIND})
	s.Close()
	r := bufio.NewReader(resp.Body)
	for _, want := range []string{`"HEARTBEAT"`, `"RESCIND"`} {
		if got := string(frame(t, r)); !strings.Contains(got, want) || strings.Contains(got, "null") {
			t.Errorf("got %s, want %s and no null", got, want)
		}
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("after Close: %v, want EOF", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// The sender to ServeFrom blocks while the client does not read. The response
// names RecordIO if the client requested it by name.
func TestServeFrom(t *testing.T) {
	messages, ended := make(chan proto.Message), make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, err := NewStream(r)
		if err == nil {
			err = s.ServeFrom(r.Context(), w, messages)
		}
		ended <- err
	}))
	t.Cleanup(server.Close)
	get := func() *http.Response {
		req, err := http.NewRequest(http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", RecordIO)
		req.Header.Set(HeaderMessageAccept, JSON)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp
	}
	resp := get()
	if got, message := resp.Header.Get("Content-Type"), resp.Header.Get("Message-Content-Type"); got != RecordIO || message != JSON {
		t.Errorf("content is %s of %s", got, message)
	}
	messages <- heartbeat()
	close(messages)
	r := bufio.NewReader(resp.Body)
	if got := string(frame(t, r)); !strings.Contains(got, "HEARTBEAT") {
		t.Errorf("got %s", got)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("after the last message: %v, want EOF", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("ServeFrom: %v", err)
	}
	messages = make(chan proto.Message)
	get().Body.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ServeFrom: %v, want %v", err, context.Canceled)
	}
}

func TestStreamEndsWithItsClient(t *testing.T) {
	s, err := NewStream(request(http.MethodPost, JSON, Protobuf, ""))
	if err != nil {
		t.Fatal(err)
	}
	resp, ended := serve(t, s)
	resp.Body.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v, want %v", err, context.Canceled)
	}
}

func TestAClientThatReadsNothingLosesItsStream(t *testing.T) {
	s, err := NewStream(request(http.MethodPost, JSON, Protobuf, ""))
	if err != nil {
		t.Fatal(err)
	}
	for range maxQueue + 1 {
		s.Send(heartbeat())
	}
	select {
	case <-s.done:
	default:
		t.Errorf("%d events wait and the stream is open", len(s.queue))
	}
	s.takeQueued()
	if s.Send(heartbeat()); len(s.queue) > 0 {
		t.Error("an event was queued after the end")
	}
}

// A client that stopped reading does not keep a closed stream.
func TestCloseDoesNotWaitForAStalledClient(t *testing.T) {
	s, err := NewStream(request(http.MethodPost, JSON, Protobuf, ""))
	if err != nil {
		t.Fatal(err)
	}
	s.patience = 50 * time.Millisecond
	_, ended := serve(t, s)
	for range 64 {
		s.Send(&scheduler.Event{Type: scheduler.Event_MESSAGE, Message: &scheduler.Event_Message{Data: make([]byte, 1<<20)}})
	}
	s.Close()
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Serve: %v, want %v", err, os.ErrDeadlineExceeded)
		}
	case <-time.After(time.Minute):
		t.Fatal("Serve still waits for the client")
	}
}

func TestJSONWhereBothWillDo(t *testing.T) {
	for accept, want := range map[string]string{
		Protobuf: Protobuf, JSON: JSON, Protobuf + ", " + JSON: JSON, Protobuf + ", text/html": Protobuf, "*/*": JSON,
	} {
		if got, err := acceptedMedia(request(http.MethodPost, JSON, accept, "")); err != nil || got != want {
			t.Errorf("Accept: %s gives %q, %v, want %q", accept, got, err, want)
		}
	}
}

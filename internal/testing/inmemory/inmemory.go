// Package inmemory provides an HTTP transport without a network for tests under
// testing/synctest, whose clock stops while a real connection is open. A
// handler serves the requests.
package inmemory

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// HandlerTransport serves requests with Handler.
type HandlerTransport struct{ Handler http.Handler }

// RoundTrip serves the request in a goroutine, which ends with the handler.
func (t HandlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	reader, out := io.Pipe()
	w := &responseWriter{header: http.Header{}, out: out, begun: make(chan struct{})}
	go func() {
		defer cancel()
		defer out.Close()
		t.Handler.ServeHTTP(w, r.Clone(ctx))
		w.Flush()
	}()
	// The body ends with the request, as on a connection.
	context.AfterFunc(ctx, func() { out.CloseWithError(context.Cause(ctx)) })
	select {
	case <-w.begun:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Header: w.header,
		Body: cancelingBody{reader, cancel}, ContentLength: -1, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
	}, nil
}

// cancelingBody cancels the handler's request when its reader closes it.
type cancelingBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b cancelingBody) Close() error { b.cancel(); return b.PipeReader.Close() }

type responseWriter struct {
	header http.Header
	out    *io.PipeWriter
	once   sync.Once
	status int
	begun  chan struct{}
}

func (w *responseWriter) Header() http.Header         { return w.header }
func (w *responseWriter) Flush()                      { w.WriteHeader(http.StatusOK) }
func (w *responseWriter) Write(p []byte) (int, error) { w.Flush(); return w.out.Write(p) }
func (w *responseWriter) WriteHeader(status int) {
	w.once.Do(func() { w.status = status; close(w.begun) })
}

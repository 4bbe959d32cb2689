package mesostest

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// memory is a connection without a network.
type memory struct{ handler http.Handler }

// RoundTrip serves the request in a goroutine, which ends with the handler.
func (m memory) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, out := io.Pipe()
	w := &memoryWriter{header: http.Header{}, out: out, begun: make(chan struct{})}
	go func() {
		defer cancel()
		m.handler.ServeHTTP(w, r.Clone(ctx))
		w.WriteHeader(http.StatusOK)
		_ = out.Close() // a pipe's never fails
	}()
	// The body ends with the request, as a connection's does.
	context.AfterFunc(r.Context(), func() { _ = body.CloseWithError(context.Cause(r.Context())) })
	select {
	case <-w.begun:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header, Body: body, Request: r}, nil
}

type memoryWriter struct {
	header http.Header
	status int
	out    *io.PipeWriter
	once   sync.Once
	begun  chan struct{}
}

func (w *memoryWriter) Header() http.Header { return w.header }
func (w *memoryWriter) Flush()              { w.WriteHeader(http.StatusOK) }

func (w *memoryWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status = status
		close(w.begun)
	})
}

func (w *memoryWriter) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(data)
}

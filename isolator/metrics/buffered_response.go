package metrics

import (
	"bytes"
	"net/http"
)

// bufferedResponse is an answer that nobody reads yet.
type bufferedResponse struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (p *bufferedResponse) Header() http.Header { return p.header }

func (p *bufferedResponse) WriteHeader(code int) { p.code = code }

// bufferResponses lets h finish before the client reads: one that takes its time, or
// never reads, keeps none of h's few places.
func bufferResponses(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &bufferedResponse{header: w.Header(), code: http.StatusOK}
		h.ServeHTTP(p, r)
		w.WriteHeader(p.code)
		_, _ = p.WriteTo(w) // a client that has gone misses it
	})
}

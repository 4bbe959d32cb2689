package metrics

import (
	"bytes"
	"net/http"
)

// page is an answer that nobody reads yet.
type page struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (p *page) Header() http.Header { return p.header }

func (p *page) WriteHeader(code int) { p.code = code }

// buffered lets h finish before the client reads: one that takes its time, or
// never reads, keeps none of h's few places.
func buffered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &page{header: w.Header(), code: http.StatusOK}
		h.ServeHTTP(p, r)
		w.WriteHeader(p.code)
		_, _ = p.WriteTo(w) // a client that has gone misses it
	})
}

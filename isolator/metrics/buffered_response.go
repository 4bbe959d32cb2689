package metrics

import (
	"bytes"
	"net/http"
)

// bufferedResponse is a response that is kept until the handler returns.
type bufferedResponse struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (p *bufferedResponse) Header() http.Header { return p.header }

func (p *bufferedResponse) WriteHeader(code int) { p.code = code }

// bufferResponses lets h finish before the response is sent. So a client that reads slowly, or
// never, does not use one of h's few slots.
func bufferResponses(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &bufferedResponse{header: w.Header(), code: http.StatusOK}
		h.ServeHTTP(p, r)
		w.WriteHeader(p.code)
		_, _ = p.WriteTo(w) // the client may have disconnected
	})
}

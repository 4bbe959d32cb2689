package socket

import (
	"net/http"
	"time"
)

// patient is an answer of which each part must be taken in time, however much
// is written and by whom.
type patient struct {
	http.ResponseWriter
	patience time.Duration
}

// begin gives the client so long to take what is written next.
func (p patient) begin() {
	// A recorder in place of a connection knows no deadlines.
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.patience))
}

// WriteHeader implements http.ResponseWriter.
func (p patient) WriteHeader(code int) {
	p.begin()
	p.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (p patient) Write(b []byte) (int, error) {
	p.begin()
	return p.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (p patient) FlushError() error {
	p.begin()
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

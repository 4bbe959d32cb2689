// Package writedeadline sets a write deadline for each part of an HTTP answer
// rather than for the whole: a stream may last as long as its client keeps
// reading. It does not depend on the content of the answer.
package writedeadline

import (
	"net/http"
	"time"
)

// DeadlineWriter is an http.ResponseWriter that extends the write deadline before
// each part, whatever its size.
type DeadlineWriter struct {
	http.ResponseWriter
	// Patience is how long one part may take.
	Patience time.Duration
}

// ExtendDeadline gives the client so long to take what is written next.
func (w DeadlineWriter) ExtendDeadline() {
	// A recorder in place of a connection knows no deadlines.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.Patience))
}

// WriteHeader implements http.ResponseWriter.
func (w DeadlineWriter) WriteHeader(code int) {
	w.ExtendDeadline()
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w DeadlineWriter) Write(b []byte) (int, error) {
	w.ExtendDeadline()
	return w.ResponseWriter.Write(b)
}

// FlushError is for http.ResponseController.
func (w DeadlineWriter) FlushError() error {
	w.ExtendDeadline()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w DeadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

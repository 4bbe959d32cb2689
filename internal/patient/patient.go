// Package patient lets an HTTP answer go on for as long as its reader takes
// each part of it in time. It knows nothing of what is answered.
package patient

import (
	"net/http"
	"time"
)

// DeadlineWriter is an answer of which each part must be taken in time, however much
// is written and by whom.
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

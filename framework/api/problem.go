package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Problem is an error as the API shows it (RFC 9457).
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func (p *Problem) Error() string { return p.Detail }

// Problemf makes a Problem of that HTTP status.
func Problemf(status int, format string, args ...any) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

const problemType = "application/problem+json"

// fail answers with the Problem in err; an err without one is our fault.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p *Problem
	if !errors.As(err, &p) {
		s.log.WithError(err).WithField("path", r.URL.Path).Error("request failed")
		p = Problemf(http.StatusInternalServerError, "%v", err)
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client that went away learns nothing more
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // likewise
}

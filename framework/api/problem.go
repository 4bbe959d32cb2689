package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sirupsen/logrus"
)

// Problem is an error as the API shows it (RFC 9457).
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Retryable says that nothing has been done and asking again may help.
	Retryable bool `json:"undone,omitempty"`
	// LeaderURL is the base URL of the API that does it, with status 307.
	LeaderURL string `json:"-"`

	cause error
}

// Unwrap is the error that %w named when the Problem was made.
func (p *Problem) Unwrap() error { return p.cause }

func (p *Problem) Error() string { return p.Detail }

// NewProblemf makes a Problem of that HTTP status.
func NewProblemf(status int, format string, args ...any) *Problem {
	err := fmt.Errorf(format, args...)
	return &Problem{Title: http.StatusText(status), Status: status, Detail: err.Error(), cause: errors.Unwrap(err)}
}

// RedirectToLeader sends a write to the leader's API at that URL.
func RedirectToLeader(url string) *Problem {
	p := NewProblemf(http.StatusTemporaryRedirect, "this scheduler is a standby: the leader is at %s", url)
	p.Retryable, p.LeaderURL = true, url
	return p
}

// NewUnavailable says that nobody can do it now, and nothing has been done.
func NewUnavailable(format string, args ...any) *Problem {
	p := NewProblemf(http.StatusServiceUnavailable, format, args...)
	p.Retryable = true
	return p
}

// UnknownJob, UnknownTask and UnknownSchedule answer for what is not there, and
// for what the requester may not see: nobody is to tell one from the other.
func UnknownJob(name string) *Problem {
	return NewProblemf(http.StatusNotFound, "there is no job %q", name)
}

// UnknownTask likewise.
func UnknownTask(id string) *Problem {
	return NewProblemf(http.StatusNotFound, "there is no task %q", id)
}

// UnknownSchedule likewise.
func UnknownSchedule(name string) *Problem {
	return NewProblemf(http.StatusNotFound, "there is no schedule %q", name)
}

const problemMediaType = "application/problem+json"

// WriteProblem answers with what err is, as the API does.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error, log logrus.FieldLogger) {
	(&apiServer{log: log}).writeProblem(w, r, err)
}

// problemFrom is the Problem in err; an err without one is our fault.
func (s *apiServer) problemFrom(r *http.Request, err error) *Problem {
	var p *Problem
	if !errors.As(err, &p) {
		s.log.WithError(err).WithField("path", r.URL.Path).Error("request failed")
		p = NewProblemf(http.StatusInternalServerError, "%v", err)
	}
	return p
}

// writeProblem answers with the Problem in err.
func (s *apiServer) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problemFrom(r, err)
	if p.LeaderURL != "" {
		w.Header().Set("Location", strings.TrimRight(p.LeaderURL, "/")+r.URL.RequestURI())
	}
	if p.Retryable && p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mesos-gpu"`)
	}
	w.Header().Set("Content-Type", problemMediaType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client that went away learns nothing more
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // likewise
}

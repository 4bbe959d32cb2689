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
	// Undone says that nothing has been done and asking again may help.
	Undone bool `json:"undone,omitempty"`
	// Elsewhere is the base URL of the API that does it, with status 307.
	Elsewhere string `json:"-"`

	cause error
}

// Unwrap is the error that %w named when the Problem was made.
func (p *Problem) Unwrap() error { return p.cause }

func (p *Problem) Error() string { return p.Detail }

// Problemf makes a Problem of that HTTP status.
func Problemf(status int, format string, args ...any) *Problem {
	err := fmt.Errorf(format, args...)
	return &Problem{Title: http.StatusText(status), Status: status, Detail: err.Error(), cause: errors.Unwrap(err)}
}

// NotLeader sends a write to the leader's API at that URL.
func NotLeader(url string) *Problem {
	p := Problemf(http.StatusTemporaryRedirect, "this scheduler is a standby: the leader is at %s", url)
	p.Undone, p.Elsewhere = true, url
	return p
}

// NotYet says that nobody can do it now, and nothing has been done.
func NotYet(format string, args ...any) *Problem {
	p := Problemf(http.StatusServiceUnavailable, format, args...)
	p.Undone = true
	return p
}

// UnknownJob, UnknownTask and UnknownSchedule answer for what is not there, and
// for what the requester may not see: nobody is to tell one from the other.
func UnknownJob(name string) *Problem {
	return Problemf(http.StatusNotFound, "there is no job %q", name)
}

// UnknownTask likewise.
func UnknownTask(id string) *Problem {
	return Problemf(http.StatusNotFound, "there is no task %q", id)
}

// UnknownSchedule likewise.
func UnknownSchedule(name string) *Problem {
	return Problemf(http.StatusNotFound, "there is no schedule %q", name)
}

const problemType = "application/problem+json"

// Fail answers with what err is, as the API does.
func Fail(w http.ResponseWriter, r *http.Request, err error, log logrus.FieldLogger) {
	(&server{log: log}).fail(w, r, err)
}

// problem is the Problem in err; an err without one is our fault.
func (s *server) problem(r *http.Request, err error) *Problem {
	var p *Problem
	if !errors.As(err, &p) {
		s.log.WithError(err).WithField("path", r.URL.Path).Error("request failed")
		p = Problemf(http.StatusInternalServerError, "%v", err)
	}
	return p
}

// fail answers with the Problem in err.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problem(r, err)
	if p.Elsewhere != "" {
		w.Header().Set("Location", strings.TrimRight(p.Elsewhere, "/")+r.URL.RequestURI())
	}
	if p.Undone && p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mesos-gpu"`)
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

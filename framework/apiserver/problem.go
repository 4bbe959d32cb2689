package apiserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
)

const problemMediaType = "application/problem+json"

// WriteProblem writes err as a Problem, as the API does.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error, log logrus.FieldLogger) {
	(&apiServer{log: log}).writeProblem(w, r, err)
}

// problemFrom returns the Problem in err. An err without one is an internal error, which it logs.
func (s *apiServer) problemFrom(r *http.Request, err error) *api.Problem {
	var p *api.Problem
	if !errors.As(err, &p) {
		s.log.WithError(err).WithField("path", r.URL.Path).Error("request failed")
		p = api.NewProblemf(http.StatusInternalServerError, "%v", err)
	}
	return p
}

// writeProblem writes the Problem in err, with the headers that its status requires: where the leader is, when to retry,
// or how to authenticate.
func (s *apiServer) writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problemFrom(r, err)
	if p.LeaderURL != "" {
		w.Header().Set("Location", strings.TrimRight(p.LeaderURL, "/")+r.URL.RequestURI())
	}
	if p.Retryable && (p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests) {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(p.RetryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mesos-gpu"`)
	}
	w.Header().Set("Content-Type", problemMediaType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // an error means that the client has disconnected
}

// writeJSON writes a response that fits in memory.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // likewise
}

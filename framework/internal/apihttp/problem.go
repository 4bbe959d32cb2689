package apihttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
)

// ProblemMediaType is the media type of RFC 9457.
const ProblemMediaType = "application/problem+json"

// ProblemFrom returns the Problem in err. An err without one is an internal error, which it logs.
func ProblemFrom(r *http.Request, err error, log logrus.FieldLogger) *api.Problem {
	var p *api.Problem
	if !errors.As(err, &p) {
		log.WithError(err).WithField("path", r.URL.Path).Error("request failed")
		p = api.NewProblemf(http.StatusInternalServerError, "%v", err)
	}
	return p
}

// WriteProblem writes the Problem in err, with the headers that its status requires: where the leader is, when to retry,
// or how to authenticate.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error, log logrus.FieldLogger) {
	p := ProblemFrom(r, err, log)
	if p.LeaderURL != "" {
		w.Header().Set("Location", strings.TrimRight(p.LeaderURL, "/")+r.URL.RequestURI())
	}
	if p.Retryable && (p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests) {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(p.RetryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="mesos-gpu"`)
	}
	w.Header().Set("Content-Type", ProblemMediaType)
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // an error means that the client has disconnected
}

// WriteJSON writes a response that fits in memory.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // likewise
}

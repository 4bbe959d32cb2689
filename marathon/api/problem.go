package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// ErrorResponse is an error with a status, in Marathon's form.
type ErrorResponse struct {
	Status  int    `json:"-"`
	Message string `json:"message"`
	// Details describe text that is not JSON.
	Details string `json:"details,omitempty"`
	// Deployments lists the deployments that lock an app.
	Deployments []objectID `json:"deployments,omitempty"`
}

func (p *ErrorResponse) Error() string { return p.Message }

func newProblem(status int, format string, args ...any) *ErrorResponse {
	return &ErrorResponse{Status: status, Message: fmt.Sprintf(format, args...)}
}

// answerError answers with the status of an error. Any unknown error is an internal one.
func (s *apiServer) answerError(w http.ResponseWriter, r *http.Request, err error) {
	var invalid *marathon.ValidationError
	if errors.As(err, &invalid) {
		s.writeJSON(w, http.StatusUnprocessableEntity, invalid)
		return
	}
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		s.log.WithError(err).WithField("path", r.URL.Path).Error("request failed")
	}
	s.writeJSON(w, p.Status, p)
}

func problemOf(err error) *ErrorResponse {
	var (
		p         *ErrorResponse
		unknown   *deploy.NotFoundError
		locked    *deploy.LockedError
		malformed *marathon.SyntaxError
		large     *http.MaxBytesError
	)
	switch {
	case errors.As(err, &p):
	case errors.As(err, &unknown):
		p = newProblem(http.StatusNotFound, "%v", unknown)
	case errors.As(err, &locked):
		p = newProblem(http.StatusConflict, "App is locked by one or more deployments: wait for them at /v2/deployments, or override them with ?force=true")
		for _, id := range locked.Deployments {
			p.Deployments = append(p.Deployments, objectID{id})
		}
	case errors.As(err, &malformed):
		p = &ErrorResponse{Status: http.StatusBadRequest, Message: "Invalid JSON", Details: malformed.Cause.Error()}
	case errors.As(err, &large):
		p = newProblem(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", large.Limit)
	default:
		p = newProblem(http.StatusInternalServerError, "%v", err)
	}
	return p
}

// notFound returns an *ErrorResponse with status 404.
func notFound(format string, args ...any) error {
	return newProblem(http.StatusNotFound, format, args...)
}

// orNotFound replaces a *deploy.NotFoundError by Marathon's message.
func orNotFound(err error, format string, args ...any) error {
	var unknown *deploy.NotFoundError
	if errors.As(err, &unknown) {
		return notFound(format, args...)
	}
	return err
}

func (s *apiServer) writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		s.log.WithError(err).Error("write an answer")
		status, text = http.StatusInternalServerError, []byte(`{"message":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // fails only if the client has disconnected
}

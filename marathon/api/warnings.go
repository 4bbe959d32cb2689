package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/sirupsen/logrus"

	"mesos-gpu/marathon"
)

// warningHeader reports parts of a definition that were dropped. Clients of Marathon ignore it.
const warningHeader = "Warning"

// Bounds of the warnings of one answer.
const (
	maxWarnings     = 20
	maxWarningBytes = 200
)

type responseHeaderKey struct{}

// withResponseHeader returns a request whose parseSettings add warnings to the answer.
func withResponseHeader(r *http.Request, h http.Header) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), responseHeaderKey{}, h))
}

// parseSettings returns the settings for the definition with that id in the request. Its
// warnings become headers of the answer, and lines of the log.
func (s *apiServer) parseSettings(r *http.Request, id string) (marathon.ParseSettings, error) {
	settings, err := s.service.ParseSettings(r.Context(), id)
	header, _ := r.Context().Value(responseHeaderKey{}).(http.Header)
	settings.Warn = func(w marathon.Warning) {
		s.log.WithFields(logrus.Fields{"id": id, "field": w.Path}).Warn("a part of a definition is dropped: " + w.Reason)
		addWarning(header, w)
	}
	return settings, err
}

// addWarning adds a warning, in the form of RFC 7234: code, agent, text.
func addWarning(h http.Header, w marathon.Warning) {
	text := w.Path + ": " + w.Reason
	value := "299 - " + strconv.QuoteToASCII(text[:min(len(text), maxWarningBytes)])
	if all := h.Values(warningHeader); h != nil && len(all) < maxWarnings && !slices.Contains(all, value) {
		h.Add(warningHeader, value)
	}
}

package api

import (
	"net/http"
	"net/url"
	"strings"
)

// answerPing answers in text or JSON.
func (s *apiServer) answerPing(w http.ResponseWriter, r *http.Request) error {
	if accept := r.Header.Get("Accept"); strings.Contains(accept, "json") && !strings.Contains(accept, "text/") {
		s.writeJSON(w, http.StatusOK, "pong")
		return nil
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write([]byte("pong")) // fails only if the client has disconnected
	return nil
}

func (s *apiServer) showInfo(w http.ResponseWriter, r *http.Request) error {
	i, err := s.service.GetInfo(r.Context())
	if err != nil {
		return err
	}
	i.Marathon.Features = emptyIfNil(i.Marathon.Features)
	s.writeJSON(w, http.StatusOK, i)
	return nil
}

// listPlugins answers that no plugins are loaded: there is no plugin interface.
func (s *apiServer) listPlugins(w http.ResponseWriter, _ *http.Request) error {
	s.writeJSON(w, http.StatusOK, map[string][]struct{}{"plugins": {}})
	return nil
}

// showLeader answers with host and port of the leader.
func (s *apiServer) showLeader(w http.ResponseWriter, r *http.Request) error {
	leader, err := s.service.LeaderURL(r.Context())
	if err != nil {
		return err
	}
	if leader == "" {
		return notFound("There is no leader")
	}
	if u, err := url.Parse(leader); err == nil && u.Host != "" {
		leader = u.Host
	}
	s.writeJSON(w, http.StatusOK, map[string]string{"leader": leader})
	return nil
}

func (s *apiServer) abdicateLeadership(w http.ResponseWriter, r *http.Request) error {
	for _, param := range []string{"backup", "restore"} {
		if r.URL.Query().Has(param) {
			return newProblem(http.StatusUnprocessableEntity, "%s is not served: copy the state where it is kept", param)
		}
	}
	if err := s.service.AbdicateLeadership(r.Context()); err != nil {
		return err
	}
	s.writeJSON(w, http.StatusOK, map[string]string{"message": "Leadership abdicated"})
	return nil
}

package api

import (
	"net/http"
	"net/url"
	"strings"
)

// ping answers in the form that is asked for.
func (s *server) ping(w http.ResponseWriter, r *http.Request) error {
	if accept := r.Header.Get("Accept"); strings.Contains(accept, "json") && !strings.Contains(accept, "text/") {
		s.answer(w, http.StatusOK, "pong")
		return nil
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = w.Write([]byte("pong")) // the client that went away learns nothing more
	return nil
}

func (s *server) serviceInfo(w http.ResponseWriter, r *http.Request) error {
	i, err := s.service.Info(r.Context())
	if err != nil {
		return err
	}
	for _, config := range []*map[string]any{&i.Marathon, &i.ZooKeeper, &i.HTTP} {
		if *config == nil {
			*config = map[string]any{}
		}
	}
	s.answer(w, http.StatusOK, i)
	return nil
}

// leader answers with host and port.
func (s *server) leader(w http.ResponseWriter, r *http.Request) error {
	leader, err := s.service.Leader(r.Context())
	if err != nil {
		return err
	}
	if leader == "" {
		return notFound("There is no leader")
	}
	if u, err := url.Parse(leader); err == nil && u.Host != "" {
		leader = u.Host
	}
	s.answer(w, http.StatusOK, map[string]string{"leader": leader})
	return nil
}

func (s *server) abdicate(w http.ResponseWriter, r *http.Request) error {
	for _, param := range []string{"backup", "restore"} {
		if r.URL.Query().Has(param) {
			return problemf(http.StatusUnprocessableEntity, "%s is not served: copy the state where it is kept", param)
		}
	}
	if err := s.service.Abdicate(r.Context()); err != nil {
		return err
	}
	s.answer(w, http.StatusOK, map[string]string{"message": "Leadership abdicated"})
	return nil
}

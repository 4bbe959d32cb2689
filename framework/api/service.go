package api

import "net/http"

// Scaling asks for so many tasks of a service.
type Scaling struct {
	Tasks *int `json:"tasks"`
}

// Stopping asks for a task's end.
type Stopping struct {
	// Retire has its service run one task fewer; else another is started in
	// its place. Tasks of other jobs are never replaced.
	Retire bool `json:"retire,omitempty"`
}

func (s *server) scale(w http.ResponseWriter, r *http.Request) error {
	var want Scaling
	if err := readJSON(w, r, &want); err != nil {
		return err
	}
	if want.Tasks == nil {
		return Problemf(http.StatusUnprocessableEntity, "tasks: say how many")
	}
	if err := s.backend().Scale(r.Context(), r.PathValue("name"), *want.Tasks); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

func (s *server) stop(w http.ResponseWriter, r *http.Request) error {
	var want Stopping
	if err := readJSON(w, r, &want); err != nil {
		return err
	}
	if err := s.backend().Stop(r.Context(), r.PathValue("id"), want.Retire); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

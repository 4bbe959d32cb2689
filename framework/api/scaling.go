package api

import "net/http"

// ScaleRequest sets the number of tasks of a service.
type ScaleRequest struct {
	Tasks *int `json:"tasks"`
}

// StopRequest ends a task.
type StopRequest struct {
	// Retire reduces the service by one task. Otherwise another task replaces the
	// stopped one. Tasks of other jobs are never replaced.
	Retire bool `json:"retire,omitempty"`
}

func (s *apiServer) handleScaleJob(w http.ResponseWriter, r *http.Request) error {
	var want ScaleRequest
	if err := readJSON(w, r, &want); err != nil {
		return err
	}
	if want.Tasks == nil {
		return NewProblemf(http.StatusUnprocessableEntity, "tasks: say how many")
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	if err = leader.ScaleJob(r.Context(), r.PathValue("name"), *want.Tasks); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

func (s *apiServer) handleStopTask(w http.ResponseWriter, r *http.Request) error {
	var want StopRequest
	if err := readJSON(w, r, &want); err != nil {
		return err
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	if err = leader.StopTask(r.Context(), r.PathValue("id"), want.Retire); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

package apiserver

import (
	"net/http"

	"mesos-gpu/framework/api"
)

func (s *apiServer) handleScaleJob(w http.ResponseWriter, r *http.Request) error {
	var want api.ScaleRequest
	if err := readJSON(w, r, &want); err != nil {
		return err
	}
	if want.Tasks == nil {
		return api.NewProblemf(http.StatusUnprocessableEntity, "tasks: say how many")
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
	var want api.StopRequest
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

package apiserver

import (
	"net/http"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
)

func (s *apiServer) handleScaleJob(w http.ResponseWriter, r *http.Request) error {
	var want api.ScaleRequest
	if err := readJSON(w, r, &want); err != nil {
		return err
	}
	if want.Tasks == nil {
		return api.NewProblemf(http.StatusUnprocessableEntity, "tasks: a number is required")
	}
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Jobs.ScaleJob(r.Context(), changeOf(r), r.PathValue(runOfPath), *want.Tasks)
	})
}

func (s *apiServer) handleStopTask(w http.ResponseWriter, r *http.Request) error {
	var want api.StopRequest
	if err := readJSON(w, r, &want); err != nil {
		return err
	}
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Jobs.StopTask(r.Context(), apihttp.GrantOf(r.Context()), r.PathValue("id"), want.Retire)
	})
}

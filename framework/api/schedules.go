package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"mesos-gpu/job"
)

// ErrScheduleDamaged means that a schedule exists but cannot be decoded. It can be ended.
var ErrScheduleDamaged = errors.New("it is damaged")

// ScheduleView is the API representation of a schedule.
type ScheduleView struct {
	// Spec is the specification of its jobs, including the schedule.
	Spec    job.Spec  `json:"spec"`
	Created time.Time `json:"created"`
	// NextRun is the time of the next run, in the schedule's time zone.
	NextRun time.Time `json:"next"`
	// Runs are its remembered jobs, oldest first.
	Runs []ScheduledRun `json:"runs"`
	// Note says why the last due time started no run, or is empty.
	Note string `json:"note,omitempty"`
}

// ScheduledRun is a job that a schedule has submitted.
type ScheduledRun struct {
	Job string    `json:"job"`
	Due time.Time `json:"due"`
}

// ScheduleList is the response to GET /v1/schedules, ordered by name.
type ScheduleList struct {
	Schedules []ScheduleView `json:"schedules"`
	Next      string         `json:"next,omitempty"`
}

func (s *apiServer) registerScheduleRoutes(route func(path string, methods map[string]handlerFunc)) {
	route("/v1/schedules", map[string]handlerFunc{http.MethodGet: s.handleListSchedules, http.MethodPost: s.handleAddSchedule})
	route("/v1/schedules/{name}", map[string]handlerFunc{http.MethodGet: s.handleGetSchedule, http.MethodDelete: s.handleEndSchedule})
}

func (s *apiServer) handleAddSchedule(w http.ResponseWriter, r *http.Request) error {
	spec, _, err := readSpec(w, r)
	if err != nil {
		return err
	}
	if spec.Schedule == nil {
		return NewProblemf(http.StatusUnprocessableEntity, "schedule: say when, for example {\"cron\": \"0 3 * * *\"}; what runs once is a job, for /v1/jobs")
	}
	spec.Owner, spec.ClientKey = GrantOf(r.Context()).UserName(), nil // each run is a submission of its own
	note := AuditNoteOf(r.Context())
	note.Job, note.Role = spec.Name, spec.Role
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	view, err := leader.AddSchedule(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/schedules/"+spec.Name)
	writeJSON(w, http.StatusCreated, view)
	return nil
}

func (s *apiServer) handleListSchedules(w http.ResponseWriter, r *http.Request) error {
	page, next, err := listPage(r, "schedules", 2, func(ctx context.Context) ([]ScheduleView, error) {
		leader, err := s.leader(ctx)
		if err != nil {
			return nil, err
		}
		all, err := leader.ListSchedules(ctx)
		return filterVisible(GrantOf(ctx), all, func(s *ScheduleView) string { return s.Spec.Role }), err
	}, scheduleSortKey)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, ScheduleList{Schedules: emptyIfNil(page), Next: next})
	return nil
}

func scheduleSortKey(all []ScheduleView, at int) SortKey { return SortKey{all[at].Spec.Name, ""} }

func (s *apiServer) handleGetSchedule(w http.ResponseWriter, r *http.Request) error {
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	view, err := leader.GetSchedule(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSONWithETag(w, ScheduleETag(view.Created), view)
	return nil
}

func (s *apiServer) handleEndSchedule(w http.ResponseWriter, r *http.Request) error {
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	if err = leader.EndSchedule(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

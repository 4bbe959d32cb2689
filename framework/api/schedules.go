package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"mesos-gpu/job"
)

// ScheduleBackend is the part of a Backend that runs jobs again and again.
type ScheduleBackend interface {
	// AddSchedule and EndSchedule return when it is recorded.
	AddSchedule(ctx context.Context, spec job.Spec) (Schedule, error)
	Schedules(ctx context.Context) ([]Schedule, error)
	// Schedule's error is ErrDamaged for one that cannot be read.
	Schedule(ctx context.Context, name string) (Schedule, error)
	// EndSchedule leaves the jobs that the schedule has submitted.
	EndSchedule(ctx context.Context, name string) error
}

// ErrDamaged says that a schedule is there and cannot be read. It can be ended.
var ErrDamaged = errors.New("it is damaged")

// Schedule is a schedule as the API shows it.
type Schedule struct {
	// Spec is that of its jobs, with the schedule in it.
	Spec    job.Spec  `json:"spec"`
	Created time.Time `json:"created"`
	// Next is when it is due, in its time zone.
	Next time.Time `json:"next"`
	// Runs are its jobs that are still known, oldest first.
	Runs []ScheduledRun `json:"runs"`
	// Note says why the last time that was due brought no run, if so.
	Note string `json:"note,omitempty"`
}

// ScheduledRun is a job of a schedule.
type ScheduledRun struct {
	Job string    `json:"job"`
	Due time.Time `json:"due"`
}

// ScheduleList answers GET /v1/schedules, by name.
type ScheduleList struct {
	Schedules []Schedule `json:"schedules"`
	Next      string     `json:"next,omitempty"`
}

func (s *server) routeSchedules(route func(path string, methods map[string]handler)) {
	route("/v1/schedules", map[string]handler{http.MethodGet: s.schedules, http.MethodPost: s.addSchedule})
	route("/v1/schedules/{name}", map[string]handler{http.MethodGet: s.schedule, http.MethodDelete: s.endSchedule})
}

func (s *server) addSchedule(w http.ResponseWriter, r *http.Request) error {
	spec, _, err := readSpec(w, r)
	if err != nil {
		return err
	}
	spec.SetDefaults()
	if err := spec.Validate(); err != nil {
		return Problemf(http.StatusUnprocessableEntity, "%v", err)
	}
	if spec.Schedule == nil {
		return Problemf(http.StatusUnprocessableEntity, "schedule: say when, for example {\"cron\": \"0 3 * * *\"}; what runs once is a job, for /v1/jobs")
	}
	spec.Owner, spec.ClientKey = GrantOf(r.Context()).Who(), nil // its runs are told apart
	note := NoteOf(r.Context())
	note.Job, note.Role = spec.Name, spec.Role
	view, err := s.backend().AddSchedule(r.Context(), spec)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/schedules/"+spec.Name)
	answer(w, http.StatusCreated, view)
	return nil
}

func (s *server) schedules(w http.ResponseWriter, r *http.Request) error {
	page, next, err := paged(r, "schedules", 2, func(ctx context.Context) ([]Schedule, error) {
		all, err := s.backend().Schedules(ctx)
		return visible(GrantOf(ctx), all, func(s *Schedule) string { return s.Spec.Role }), err
	}, scheduleKey)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, ScheduleList{Schedules: some(page), Next: next})
	return nil
}

func scheduleKey(all []Schedule, at int) Key { return Key{all[at].Spec.Name, ""} }

func (s *server) schedule(w http.ResponseWriter, r *http.Request) error {
	view, err := s.backend().Schedule(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	tagged(w, ScheduleTag(view.Created), view)
	return nil
}

func (s *server) endSchedule(w http.ResponseWriter, r *http.Request) error {
	if err := s.backend().EndSchedule(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

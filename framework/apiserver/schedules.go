package apiserver

import (
	"cmp"
	"context"
	"net/http"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// ScheduleCommands record, list and end schedules.
type ScheduleCommands interface {
	// AddSchedule records a schedule of whose name the owner has no other.
	AddSchedule(ctx context.Context, by *access.Grant, spec job.Spec) (view api.ScheduleView, role string, err error)
	// ListSchedules lists all schedules by name and owner, except for damaged ones.
	ListSchedules(ctx context.Context) ([]api.ScheduleView, error)
	// GetSchedule returns the schedule that a requester means by [OWNER/]NAME. It returns request.ErrScheduleDamaged, wrapped,
	// for a schedule whose document cannot be decoded.
	GetSchedule(ctx context.Context, by *access.Grant, reference string) (api.ScheduleView, error)
	// EndSchedule removes a schedule. The jobs that it has submitted stay.
	EndSchedule(ctx context.Context, c request.Change, reference string) error
}

func (s *apiServer) handleAddSchedule(w http.ResponseWriter, r *http.Request) error {
	spec, _, err := readSpec(w, r)
	if err != nil {
		return err
	}
	if spec.Schedule == nil {
		return api.NewProblemf(http.StatusUnprocessableEntity,
			"schedule: a time is required, for example {\"cron\": \"0 3 * * *\"}; a job that runs once is submitted to /v1/jobs")
	}
	spec.Owner, spec.ClientKey = apihttp.GrantOf(r.Context()).UserName(), nil // each run is a submission of its own
	note := apihttp.AuditNoteOf(r.Context())
	note.Job, note.Role = spec.Name, spec.Role
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	view, role, err := leader.Schedules.AddSchedule(r.Context(), apihttp.GrantOf(r.Context()), spec)
	note.Role = cmp.Or(role, note.Role)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/schedules/"+spec.Name)
	apihttp.WriteJSON(w, http.StatusCreated, view)
	return nil
}

func (s *apiServer) handleListSchedules(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	page, next, err := listPage(r, "schedules", 2, func(ctx context.Context, _ bool) ([]api.ScheduleView, error) {
		all, err := leader.Schedules.ListSchedules(ctx)
		visible := filterVisible(apihttp.GrantOf(ctx), all, func(s *api.ScheduleView) string { return s.Spec.Role })
		for i := range visible {
			visible[i] = readableSchedule(ctx, visible[i])
		}
		return visible, err
	}, scheduleSortKey)
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, api.ScheduleList{Schedules: emptyIfNil(page), Next: next})
	return nil
}

// scheduleSortKey has the name and the owner, which are unique.
func scheduleSortKey(all []api.ScheduleView, at int) request.SortKey {
	return request.SortKey{all[at].Spec.Name, all[at].Spec.Owner}
}

func (s *apiServer) handleGetSchedule(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	view, err := leader.Schedules.GetSchedule(r.Context(), apihttp.GrantOf(r.Context()), r.PathValue("name"))
	if err != nil {
		return err
	}
	writeJSONWithETag(w, request.ScheduleETag(view.Created), readableSchedule(r.Context(), view))
	return nil
}

func (s *apiServer) handleEndSchedule(w http.ResponseWriter, r *http.Request) error {
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Schedules.EndSchedule(r.Context(), changeOf(r), r.PathValue("name"))
	})
}

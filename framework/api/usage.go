package api

import (
	"context"
	"net/http"

	"mesos-gpu/framework/access"
	"mesos-gpu/gpu"
)

// UsageBackend tells what GPUs do.
type UsageBackend interface {
	// Usage is that of the GPUs of running tasks, by job and index. What an
	// agent does not tell is a note of its task's.
	Usage(ctx context.Context, q UsageQuery) ([]TaskUsage, error)
}

// UsageQuery says whose use is asked for; "" is anybody's.
type UsageQuery struct{ Job, Role string }

// TaskUsage is what the GPUs of a running task did a moment ago. The task could
// have made it up: it is for people to look at.
type TaskUsage struct {
	Task     string `json:"task"`
	Job      string `json:"job"`
	Index    int    `json:"index"`
	Role     string `json:"role"`
	Hostname string `json:"hostname"`
	// Devices that nobody tells of have a UUID alone; where the agent hands GPUs
	// out by count there are none.
	Devices []gpu.DeviceUsage `json:"devices"`
	// Simulated figures are made up.
	Simulated bool `json:"simulated,omitempty"`
	// AgeSeconds is how long ago that was, by the clocks of agent and scheduler;
	// nil where nothing is known.
	AgeSeconds *float64 `json:"age_seconds,omitempty"`
	// Note says why nothing is known, or that it is old.
	Note string `json:"note"`
}

// UsageList answers GET /v1/usage.
type UsageList struct {
	Tasks []TaskUsage `json:"tasks"`
}

func (s *server) usage(w http.ResponseWriter, r *http.Request) error {
	q := UsageQuery{Job: r.URL.Query().Get("job"), Role: r.URL.Query().Get("role")}
	if q.Job != "" && GrantOf(r.Context()) != nil {
		if err := s.onJob(r, q.Job, access.View); err != nil {
			return err
		}
	}
	tasks, err := s.backend().Usage(r.Context(), q)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, UsageList{some(visible(GrantOf(r.Context()), tasks, func(t *TaskUsage) string { return t.Role }))})
	return nil
}

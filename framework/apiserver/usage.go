package apiserver

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
)

// UsageReader reads the GPU usage of running tasks.
type UsageReader interface {
	// ListUsage returns the GPU usage of running tasks, ordered by job, the
	// oldest first, and index, without the tasks that the requester may not see.
	// A task whose agent does not report usage has a note instead.
	ListUsage(ctx context.Context, by *access.Grant, q request.UsageQuery) (api.UsageList, error)
}

// UsageHistoryReader reads how many GPUs were in use.
type UsageHistoryReader interface {
	// ClusterUsage returns how many GPUs were in use in the last hours, by type.
	ClusterUsage(ctx context.Context, hours int) (api.ClusterHistory, error)
	// JobUsage returns the usage of a job's GPUs over its whole run.
	JobUsage(ctx context.Context, name string) (api.JobUsageHistory, error)
}

func (s *apiServer) handleListUsage(w http.ResponseWriter, r *http.Request) error {
	q, err := parseUsageQuery(r.URL.Query())
	if err != nil {
		return err
	}
	if q.Job != "" {
		found, err := s.findJob(r, q.Job, access.View)
		if err != nil {
			return err
		}
		q.Job = found.ID()
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	list, err := leader.Usage.ListUsage(r.Context(), apihttp.GrantOf(r.Context()), q)
	if err != nil {
		return err
	}
	list.Tasks = emptyIfNil(list.Tasks)
	apihttp.WriteJSON(w, http.StatusOK, list)
	return nil
}

func (s *apiServer) handleClusterUsage(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	hours, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("hours"), "24"))
	if err != nil || hours < 1 || hours > api.MaxHistoryHours {
		return api.NewProblemf(http.StatusBadRequest, "hours %q is not a number from 1 to %d", r.URL.Query().Get("hours"), api.MaxHistoryHours)
	}
	history, err := leader.UsageHistory.ClusterUsage(r.Context(), hours)
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, history)
	return nil
}

func (s *apiServer) handleJobUsage(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	history, err := leader.UsageHistory.JobUsage(r.Context(), r.PathValue(runOfPath))
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, history)
	return nil
}

// parseUsageQuery returns the selection of tasks in a request's parameters.
func parseUsageQuery(v url.Values) (request.UsageQuery, error) {
	p, err := parsePageRequest(v)
	if err != nil {
		return request.UsageQuery{}, err
	}
	q := request.UsageQuery{PageRequest: p, Job: v.Get("job"), Role: v.Get("role"), Task: v.Get("task"), Agent: v.Get("agent")}
	if text := v.Get("minutes"); text != "" {
		if q.Minutes, err = strconv.Atoi(text); err != nil || q.Minutes < 1 || q.Minutes > api.MaxUsageMinutes {
			return q, api.NewProblemf(http.StatusBadRequest, "minutes %q is not a number from 1 to %d: older measurements are not kept", text, api.MaxUsageMinutes)
		}
	}
	return q, nil
}

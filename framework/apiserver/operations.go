package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// QueueReader reads the queue and what holds jobs back.
type QueueReader interface {
	// ListQueue lists the jobs with waiting tasks in queue order, without those
	// that the requester may not see. Later pages keep the order of the first.
	ListQueue(ctx context.Context, by *access.Grant, p api.PageRequest) (api.QueueList, error)
	// ListRoles lists the scheduler's roles, the default role first.
	ListRoles(ctx context.Context) ([]api.RoleStatus, error)
	// ListHolds lists the holds of users and roles, users first, by name.
	ListHolds(ctx context.Context) ([]api.HoldView, error)
	// ListNotifications lists the notifications that were not delivered, oldest first.
	ListNotifications(ctx context.Context) ([]api.NotificationView, error)
}

// OperatorCommands change quotas and cordons.
type OperatorCommands interface {
	// SetQuota limits what a role may hold; nil restores the roles file's quota.
	SetQuota(ctx context.Context, c request.Change, role string, quota *string) (api.RoleStatus, error)
	// CordonAgent keeps new tasks off an agent, named by its id or hostname.
	// With drain it also stops the tasks that run there and queues them again.
	CordonAgent(ctx context.Context, c request.Change, agent, reason string, drain bool) error
	// UncordonAgent ends both. It is no error for an agent that is not cordoned.
	UncordonAgent(ctx context.Context, c request.Change, agent string) error
}

// Forecaster computes demand and start times from the offers.
type Forecaster interface {
	// GetDemand returns the requirements of waiting tasks that would run if
	// machines were added.
	GetDemand(ctx context.Context) (api.DemandList, error)
	// EstimateStart estimates when a job that ValidateJob has returned would start if it were
	// submitted now; nil if no estimate is possible.
	EstimateStart(ctx context.Context, spec *job.Spec) (*api.StartEstimate, error)
}

// defaultReason is the reason of a cordon if the operator gives none.
const defaultReason = "no reason given"

func (s *apiServer) handleListQueue(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	p, err := parsePageRequest(r.URL.Query())
	if err != nil {
		return err
	}
	mask := nameMask(r.Context(), reads.Jobs)
	return writeList(w, p, queuedPerRead, func(p api.PageRequest) ([]api.QueuedJob, string, error) {
		list, err := reads.Queue.ListQueue(r.Context(), apihttp.GrantOf(r.Context()), p)
		return list.Jobs, list.Next, err
	}, func(a *streamedAnswer, one *api.QueuedJob) error {
		one.Reason = mask.MaskText(one.Reason)
		a.value(one)
		return nil
	})
}

func (s *apiServer) handleListRoles(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	page, next, err := listPage(r, "roles", 1, func(ctx context.Context, _ bool) ([]api.RoleStatus, error) {
		roles, err := reads.Queue.ListRoles(ctx)
		return filterVisible(apihttp.GrantOf(ctx), roles, func(r *api.RoleStatus) string { return r.Name }), err
	}, roleSortKey)
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, api.RoleList{Roles: emptyIfNil(page), Next: next})
	return nil
}

// roleSortKey has only a name, because roles keep the order of their file.
func roleSortKey(roles []api.RoleStatus, at int) request.SortKey {
	return request.SortKey{roles[at].Name}
}

func (s *apiServer) handleGetRole(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	roles, err := reads.Queue.ListRoles(r.Context())
	if err != nil {
		return err
	}
	name := r.PathValue("role")
	i := slices.IndexFunc(roles, func(one api.RoleStatus) bool { return one.Name == name })
	if i < 0 {
		return api.NewProblemf(http.StatusNotFound, "there is no role %q", name).WithCode(api.CodeRoleNotFound, name)
	}
	writeJSONWithETag(w, request.QuotaETag(&roles[i]), roles[i])
	return nil
}

// handleSetQuota sets a quota, or removes it for null. A missing key is an error.
func (s *apiServer) handleSetQuota(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Quota json.RawMessage `json:"quota"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	var quota *string
	if err := json.Unmarshal(body.Quota, &quota); err != nil {
		return api.NewProblemf(http.StatusUnprocessableEntity, `quota: say what, for example {"quota": "V100=8, *=16"}, or null for the roles file's`)
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	role, err := leader.Operator.SetQuota(r.Context(), changeOf(r), r.PathValue("role"), quota)
	if err != nil {
		return err
	}
	writeJSONWithETag(w, request.QuotaETag(&role), role)
	return nil
}

// maxReason limits the reason of a cordon or a hold, in bytes.
const maxReason = 1024

// cordonHandler returns the handler that cordons an agent, and with drain also drains it.
func cordonHandler(drain bool) handlerFunc {
	return func(s *apiServer, w http.ResponseWriter, r *http.Request) error {
		var why api.CordonRequest
		if err := readJSON(w, r, &why); err != nil {
			return err
		}
		if err := checkReason(why.Reason); err != nil {
			return err
		}
		return s.acceptChange(w, r, func(leader *LeaderBackend) error {
			return leader.Operator.CordonAgent(r.Context(), changeOf(r), r.PathValue("id"), cmp.Or(why.Reason, defaultReason), drain)
		})
	}
}

func (s *apiServer) handleUncordonAgent(w http.ResponseWriter, r *http.Request) error {
	if err := readJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	return s.acceptChange(w, r, func(leader *LeaderBackend) error {
		return leader.Operator.UncordonAgent(r.Context(), changeOf(r), r.PathValue("id"))
	})
}

func (s *apiServer) handleGetDemand(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	demand, err := leader.Forecast.GetDemand(r.Context())
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, api.DemandList{Demand: emptyIfNil(demand.Demand), NotYetCounted: emptyIfNil(demand.NotYetCounted)})
	return nil
}

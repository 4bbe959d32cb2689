package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// QueuedJob is a job with tasks that wait for resources.
type QueuedJob struct {
	// Position is the position in the queue, from 1.
	Position  int       `json:"position"`
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Priority  int       `json:"priority"`
	Submitted time.Time `json:"submitted"`
	// Waiting is the number of its Tasks that wait.
	Tasks   int `json:"tasks"`
	Waiting int `json:"waiting"`
	// GPUs is the request of each task, such as "2 x A100"; "" for none.
	GPUs string `json:"gpus"`
	// Reason is the WaitReason of JobView.
	Reason string `json:"reason"`
}

// QueueList is the response to GET /v1/queue.
type QueueList struct {
	Jobs []QueuedJob `json:"jobs"`
	Next string      `json:"next,omitempty"`
}

// RoleStatus is the present state of a role.
type RoleStatus struct {
	Name     string  `json:"name"`
	Weight   float64 `json:"weight"`
	Order    string  `json:"order"`
	Policy   string  `json:"policy"`
	Backfill bool    `json:"backfill"`
	// Quota limits GPUs by type, and "*" all GPUs. QuotaSet means that an operator has
	// replaced the quota of the roles file.
	Quota    map[string]int `json:"quota"`
	QuotaSet bool           `json:"quota_set"`
	// Allocated is the number of GPUs that tasks of the role and its descendants hold,
	// by type; "*" is the sum. Shares count as fractions.
	Allocated map[string]float64 `json:"held"`
	// Waiting is the number of its tasks that wait for resources.
	Waiting int `json:"waiting"`
	// Warnings lists GPU types of a newly set quota that no agent has. The quota has no
	// effect on them yet.
	Warnings []string `json:"warnings,omitempty"`
}

// RoleList is the response to GET /v1/roles.
type RoleList struct {
	Roles []RoleStatus `json:"roles"`
	Next  string       `json:"next,omitempty"`
}

// QuotaChange sets a role's quota in the syntax of the roles file: "V100=8, *=16". ""
// means unlimited, null restores the quota of the roles file.
type QuotaChange struct {
	Quota *string `json:"quota"`
}

// CordonRequest has the reason why an agent is cordoned.
type CordonRequest struct {
	Reason string `json:"reason"`
}

// defaultReason is the reason of a cordon if the operator gives none.
const defaultReason = "no reason given"

// AnyType is UnmetDemand.Type if every type is accepted, except NotTypes.
const AnyType = "any"

// UnmetDemand is a group of waiting tasks with equal requirements that would run if
// machines were added.
type UnmetDemand struct {
	// Type is the only accepted GPU type, AnyType, or "" if several are accepted.
	// Types are the accepted ones, empty for any.
	Type     string   `json:"type"`
	Types    []string `json:"types"`
	NotTypes []string `json:"not_types,omitempty"`
	// GPUs is the total number of missing GPUs, 0 if only other resources are missing.
	// Each task needs PerAgent GPUs on one agent. For shares, GPUs is the number of
	// devices that the shares add up to.
	GPUs     int `json:"gpus"`
	PerAgent int `json:"per_agent"`
	// InsufficientResources lists the missing resources: "gpus" or, if enough GPUs are
	// free, "cpus", "mem", "disk" and "ports".
	InsufficientResources []string `json:"short"`
	// Share is set if a task needs this share of each of PerAgent devices.
	Share *gpu.ShareRequest `json:"share,omitempty"`
	// MemMiB is the least memory of a device. Topology is the required link between the
	// devices of one task: "nvlink", "same-numa" or "".
	MemMiB   int64  `json:"mem_mib"`
	Topology string `json:"topology"`
	// MinDriver and MinCUDA are the oldest accepted versions.
	MinDriver string `json:"min_driver,omitempty"`
	MinCUDA   string `json:"min_cuda,omitempty"`
	// Constraints are the constraints that the agent must also satisfy.
	Constraints []job.Constraint `json:"constraints,omitempty"`
	// Tasks is the number of waiting tasks; Jobs and Roles are theirs.
	Tasks int      `json:"tasks"`
	Jobs  []string `json:"jobs"`
	Roles []string `json:"roles"`
	// CPUs and TaskMemMiB are what each task needs in addition to GPUs, including its
	// executor.
	CPUs       float64 `json:"cpus"`
	TaskMemMiB float64 `json:"task_mem_mib"`
}

// DemandList is the response to GET /v1/demand.
type DemandList struct {
	Demand []UnmetDemand `json:"demand"`
	// NotYetCounted lists jobs that have waited for less time than offers may take to
	// arrive.
	NotYetCounted []string `json:"settling"`
}

// registerOperatorRoutes registers the routes for operators.
func (s *apiServer) registerOperatorRoutes(route func(path string, methods map[string]handlerFunc)) {
	route("/v1/queue", map[string]handlerFunc{http.MethodGet: s.handleListQueue})
	route("/v1/roles", map[string]handlerFunc{http.MethodGet: s.handleListRoles})
	route("/v1/roles/{role}", map[string]handlerFunc{http.MethodGet: s.handleGetRole})
	route("/v1/roles/{role}/quota", map[string]handlerFunc{http.MethodPut: s.handleSetQuota})
	route("/v1/agents/{id}/cordon", map[string]handlerFunc{http.MethodPost: s.handleCordonAgent(false)})
	route("/v1/agents/{id}/drain", map[string]handlerFunc{http.MethodPost: s.handleCordonAgent(true)})
	route("/v1/agents/{id}/uncordon", map[string]handlerFunc{http.MethodPost: s.handleUncordonAgent})
	route("/v1/demand", map[string]handlerFunc{http.MethodGet: s.handleGetDemand})
}

func (s *apiServer) handleListQueue(w http.ResponseWriter, r *http.Request) error {
	p, err := parsePageRequest(r.URL.Query())
	if err != nil {
		return err
	}
	reads, err := s.reads(r.Context())
	if err != nil {
		return err
	}
	list, err := reads.ListQueue(r.Context(), p)
	if err != nil {
		return err
	}
	list.Jobs = emptyIfNil(filterVisible(GrantOf(r.Context()), list.Jobs, func(q *QueuedJob) string { return q.Role }))
	writeJSON(w, http.StatusOK, list)
	return nil
}

func (s *apiServer) handleListRoles(w http.ResponseWriter, r *http.Request) error {
	page, next, err := listPage(r, "roles", 1, func(ctx context.Context) ([]RoleStatus, error) {
		reads, err := s.reads(ctx)
		if err != nil {
			return nil, err
		}
		roles, err := reads.ListRoles(ctx)
		return filterVisible(GrantOf(ctx), roles, func(r *RoleStatus) string { return r.Name }), err
	}, roleSortKey)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, RoleList{Roles: emptyIfNil(page), Next: next})
	return nil
}

// roleSortKey has only a name, because roles keep the order of their file.
func roleSortKey(roles []RoleStatus, at int) SortKey { return SortKey{roles[at].Name} }

func (s *apiServer) handleGetRole(w http.ResponseWriter, r *http.Request) error {
	reads, err := s.reads(r.Context())
	if err != nil {
		return err
	}
	roles, err := reads.ListRoles(r.Context())
	if err != nil {
		return err
	}
	name := r.PathValue("role")
	i := slices.IndexFunc(roles, func(one RoleStatus) bool { return one.Name == name })
	if i < 0 {
		return NewProblemf(http.StatusNotFound, "there is no role %q", name).WithCode(CodeRoleNotFound, name)
	}
	writeJSONWithETag(w, QuotaETag(&roles[i]), roles[i])
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
		return NewProblemf(http.StatusUnprocessableEntity, `quota: say what, for example {"quota": "V100=8, *=16"}, or null for the roles file's`)
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	role, err := leader.SetQuota(r.Context(), r.PathValue("role"), quota)
	if err != nil {
		return err
	}
	writeJSONWithETag(w, QuotaETag(&role), role)
	return nil
}

// maxReason limits the reason of a cordon, in bytes.
const maxReason = 1024

func (s *apiServer) handleCordonAgent(drain bool) handlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		var why CordonRequest
		if err := readJSON(w, r, &why); err != nil {
			return err
		}
		if len(why.Reason) > maxReason {
			return NewProblemf(http.StatusUnprocessableEntity, "reason: it has %d bytes, at most %d are kept", len(why.Reason), maxReason)
		}
		leader, err := s.leader(r.Context())
		if err != nil {
			return err
		}
		if err = leader.CordonAgent(r.Context(), r.PathValue("id"), cmp.Or(why.Reason, defaultReason), drain); err != nil {
			return err
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
}

func (s *apiServer) handleUncordonAgent(w http.ResponseWriter, r *http.Request) error {
	if err := readJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	if err = leader.UncordonAgent(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

func (s *apiServer) handleGetDemand(w http.ResponseWriter, r *http.Request) error {
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	demand, err := leader.GetDemand(r.Context())
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, DemandList{emptyIfNil(demand.Demand), emptyIfNil(demand.NotYetCounted)})
	return nil
}

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

// Operations are what operators ask for.
type Operations interface {
	// Queue lists the jobs with tasks that wait, in the order in which they
	// choose, but for those that the requester may not see. Pages keep to the
	// order in which the first one had them.
	Queue(ctx context.Context, p Page) (QueueList, error)
	// Roles lists the scheduler's roles, the default first.
	Roles(ctx context.Context) ([]Role, error)
	// SetQuota bounds what a role may hold; nil is as the roles file says. It
	// returns when that is recorded, as the others do.
	SetQuota(ctx context.Context, role string, quota *string) (Role, error)
	// Cordon keeps tasks off an agent, by its id or hostname. With drain it
	// stops those that are there, too, and queues them again.
	Cordon(ctx context.Context, agent, reason string, drain bool) error
	Uncordon(ctx context.Context, agent string) error
	// Demand says what machines could be added for.
	Demand(ctx context.Context) (DemandList, error)
}

// Queued is a job with tasks that wait for a place.
type Queued struct {
	// Position counts from 1.
	Position  int       `json:"position"`
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Priority  int       `json:"priority"`
	Submitted time.Time `json:"submitted"`
	// Waiting of its Tasks have no place.
	Tasks   int `json:"tasks"`
	Waiting int `json:"waiting"`
	// GPUs is what each task wants, as "2 x A100"; "" for none.
	GPUs string `json:"gpus"`
	// Reason is JobView's Waits.
	Reason string `json:"reason"`
}

// QueueList answers GET /v1/queue.
type QueueList struct {
	Jobs []Queued `json:"jobs"`
	Next string   `json:"next,omitempty"`
}

// Role is a role as it is now.
type Role struct {
	Name     string  `json:"name"`
	Weight   float64 `json:"weight"`
	Order    string  `json:"order"`
	Policy   string  `json:"policy"`
	Backfill bool    `json:"backfill"`
	// Quota bounds the GPUs by type, "*" all of them; QuotaSet says that it is
	// not the roles file's but was set since.
	Quota    map[string]int `json:"quota"`
	QuotaSet bool           `json:"quota_set"`
	// Held are the GPUs that its tasks and those of roles below it hold, by
	// type; "*" is the sum. A share counts as a fraction.
	Held map[string]float64 `json:"held"`
	// Waiting counts its tasks that wait for a place.
	Waiting int `json:"waiting"`
	// Warnings are of a quota that has just been set: types in it that no agent
	// has, which bound nothing as yet.
	Warnings []string `json:"warnings,omitempty"`
}

// RoleList answers GET /v1/roles.
type RoleList struct {
	Roles []Role `json:"roles"`
	Next  string `json:"next,omitempty"`
}

// QuotaChange sets a role's quota, as the roles file writes it: "V100=8, *=16".
// "" is no bound, null the roles file's again.
type QuotaChange struct {
	Quota *string `json:"quota"`
}

// Cordoning says why an agent shall get no tasks.
type Cordoning struct {
	Reason string `json:"reason"`
}

// noReason stands for one that nobody gave.
const noReason = "no reason given"

// AnyType is Demand.Type where any type will do, but for NotTypes.
const AnyType = "any"

// Demand is what equal tasks wait for though nothing but what is in use is in
// their way.
type Demand struct {
	// Type is the GPU type where only one will do, AnyType, or "" where several
	// will; Types are those that will do, none for any.
	Type     string   `json:"type"`
	Types    []string `json:"types"`
	NotTypes []string `json:"not_types,omitempty"`
	// GPUs are lacking in all, none where other things are; a task wants
	// PerAgent on one agent. For shares of devices GPUs is what those are worth
	// together.
	GPUs     int `json:"gpus"`
	PerAgent int `json:"per_agent"`
	// Short is what there is too little of: "gpus", or where these are free
	// "cpus", "mem", "disk" and "ports".
	Short []string `json:"short"`
	// Share is set where a task wants that much of each of PerAgent devices.
	Share *gpu.Share `json:"share,omitempty"`
	// MemMiB is the least memory of a device, Topology how the devices of one
	// task must hang together: "nvlink", "same-numa" or "".
	MemMiB   int64  `json:"mem_mib"`
	Topology string `json:"topology"`
	// MinDriver and MinCUDA are the oldest versions that will do.
	MinDriver string `json:"min_driver,omitempty"`
	MinCUDA   string `json:"min_cuda,omitempty"`
	// Constraints are those that the agent must meet, too.
	Constraints []job.Constraint `json:"constraints,omitempty"`
	// Tasks of Jobs, of Roles, lack it.
	Tasks int      `json:"tasks"`
	Jobs  []string `json:"jobs"`
	Roles []string `json:"roles"`
	// CPUs and TaskMemMiB are what each task needs beside its GPUs, its
	// executor included.
	CPUs       float64 `json:"cpus"`
	TaskMemMiB float64 `json:"task_mem_mib"`
}

// DemandList answers GET /v1/demand.
type DemandList struct {
	Demand []Demand `json:"demand"`
	// Settling are jobs that are not counted yet: they have waited for less
	// time than offers may take.
	Settling []string `json:"settling"`
}

// operations routes what operators ask for.
func (s *server) operations(route func(path string, methods map[string]handler)) {
	route("/v1/queue", map[string]handler{http.MethodGet: s.queue})
	route("/v1/roles", map[string]handler{http.MethodGet: s.roles})
	route("/v1/roles/{role}", map[string]handler{http.MethodGet: s.role})
	route("/v1/roles/{role}/quota", map[string]handler{http.MethodPut: s.setQuota})
	route("/v1/agents/{id}/cordon", map[string]handler{http.MethodPost: s.cordon(false)})
	route("/v1/agents/{id}/drain", map[string]handler{http.MethodPost: s.cordon(true)})
	route("/v1/agents/{id}/uncordon", map[string]handler{http.MethodPost: s.uncordon})
	route("/v1/demand", map[string]handler{http.MethodGet: s.demand})
}

func (s *server) queue(w http.ResponseWriter, r *http.Request) error {
	p, err := parsePage(r.URL.Query())
	if err != nil {
		return err
	}
	list, err := s.backend().Queue(r.Context(), p)
	if err != nil {
		return err
	}
	list.Jobs = some(visible(GrantOf(r.Context()), list.Jobs, func(q *Queued) string { return q.Role }))
	answer(w, http.StatusOK, list)
	return nil
}

func (s *server) roles(w http.ResponseWriter, r *http.Request) error {
	page, next, err := paged(r, "roles", 1, func(ctx context.Context) ([]Role, error) {
		roles, err := s.backend().Roles(ctx)
		return visible(GrantOf(ctx), roles, func(r *Role) string { return r.Name }), err
	}, roleKey)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, RoleList{Roles: some(page), Next: next})
	return nil
}

// roleKey has a name alone: the roles are in the order of their file.
func roleKey(roles []Role, at int) Key { return Key{roles[at].Name} }

func (s *server) role(w http.ResponseWriter, r *http.Request) error {
	roles, err := s.backend().Roles(r.Context())
	if err != nil {
		return err
	}
	name := r.PathValue("role")
	i := slices.IndexFunc(roles, func(one Role) bool { return one.Name == name })
	if i < 0 {
		return Problemf(http.StatusNotFound, "there is no role %q", name)
	}
	tagged(w, QuotaTag(&roles[i]), roles[i])
	return nil
}

// setQuota tells null from a key that is not there.
func (s *server) setQuota(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Quota json.RawMessage `json:"quota"`
	}
	if err := readJSON(w, r, &body); err != nil {
		return err
	}
	var quota *string
	if err := json.Unmarshal(body.Quota, &quota); err != nil {
		return Problemf(http.StatusUnprocessableEntity, `quota: say what, for example {"quota": "V100=8, *=16"}, or null for the roles file's`)
	}
	role, err := s.backend().SetQuota(r.Context(), r.PathValue("role"), quota)
	if err != nil {
		return err
	}
	tagged(w, QuotaTag(&role), role)
	return nil
}

// maxReason bounds the reason of a cordon, in bytes.
const maxReason = 1024

func (s *server) cordon(drain bool) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		var why Cordoning
		if err := readJSON(w, r, &why); err != nil {
			return err
		}
		if len(why.Reason) > maxReason {
			return Problemf(http.StatusUnprocessableEntity, "reason: it has %d bytes, at most %d are kept", len(why.Reason), maxReason)
		}
		if err := s.backend().Cordon(r.Context(), r.PathValue("id"), cmp.Or(why.Reason, noReason), drain); err != nil {
			return err
		}
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
}

func (s *server) uncordon(w http.ResponseWriter, r *http.Request) error {
	if err := readJSON(w, r, &struct{}{}); err != nil {
		return err
	}
	if err := s.backend().Uncordon(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusAccepted)
	return nil
}

func (s *server) demand(w http.ResponseWriter, r *http.Request) error {
	demand, err := s.backend().Demand(r.Context())
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, DemandList{some(demand.Demand), some(demand.Settling)})
	return nil
}

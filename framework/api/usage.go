package api

import (
	"net/http"
	"net/url"
	"strconv"

	"mesos-gpu/framework/access"
	"mesos-gpu/gpu"
)

// MaxUsageMinutes is how much of the past is kept at most.
const MaxUsageMinutes = 15

// UsageQuery says whose use is asked for; "" is anybody's, and of Agent, an
// agent's id, that of any.
type UsageQuery struct {
	PageRequest
	Job, Role, Task, Agent string
	// Minutes of the past are asked for too, 0 to MaxUsageMinutes.
	Minutes int
}

// TaskUsage is what the GPUs of a running task did a moment ago. The task could
// have made it up: it is for people to look at.
type TaskUsage struct {
	Task     string `json:"task"`
	Job      string `json:"job"`
	Index    int    `json:"index"`
	Role     string `json:"role"`
	Hostname string `json:"hostname"`
	// Devices without a sample have a UUID alone; where the agent hands GPUs
	// out by count there are none.
	Devices []gpu.DeviceUsage `json:"devices"`
	// Simulated figures are made up.
	Simulated bool `json:"simulated,omitempty"`
	// AgeSeconds is how long ago that was, by the clocks of agent and scheduler;
	// nil where nothing is known.
	AgeSeconds *float64 `json:"age_seconds,omitempty"`
	// Note says why nothing is known, or that it is old.
	Note string `json:"note"`
	// History is nil where none was asked for or is known.
	History *UsageHistory `json:"past,omitempty"`
}

// UsageHistory is what a task's GPUs did in the last minutes, as far as the
// scheduler that leads has seen it. What was stale is left out.
type UsageHistory struct {
	// AgesSeconds is how long ago values were read, the oldest first: mostly
	// each 15 s, each 40 s where 8,000 tasks have GPUs.
	AgesSeconds []float64       `json:"ages_seconds"`
	Devices     []DeviceHistory `json:"devices"`
}

// DeviceHistory has a value for each age, nil where it is not known.
type DeviceHistory struct {
	UUID       string     `json:"uuid"`
	Duty       []*float64 `json:"duty"`
	MemUsedMiB []*float64 `json:"mem_used_mib"`
}

// UsageList answers GET /v1/usage.
type UsageList struct {
	Tasks []TaskUsage `json:"tasks"`
	Next  string      `json:"next,omitempty"`
}

func (s *apiServer) handleListUsage(w http.ResponseWriter, r *http.Request) error {
	q, err := parseUsageQuery(r.URL.Query())
	if err != nil {
		return err
	}
	if q.Job != "" && GrantOf(r.Context()) != nil {
		if err := s.checkJobAccess(r, q.Job, access.View); err != nil {
			return err
		}
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	list, err := leader.ListUsage(r.Context(), q)
	if err != nil {
		return err
	}
	list.Tasks = emptyIfNil(filterVisible(GrantOf(r.Context()), list.Tasks, func(t *TaskUsage) string { return t.Role }))
	writeJSON(w, http.StatusOK, list)
	return nil
}

func parseUsageQuery(v url.Values) (UsageQuery, error) {
	p, err := parsePageRequest(v)
	if err != nil {
		return UsageQuery{}, err
	}
	q := UsageQuery{PageRequest: p, Job: v.Get("job"), Role: v.Get("role"), Task: v.Get("task"), Agent: v.Get("agent")}
	if text := v.Get("minutes"); text != "" {
		if q.Minutes, err = strconv.Atoi(text); err != nil || q.Minutes < 1 || q.Minutes > MaxUsageMinutes {
			return q, NewProblemf(http.StatusBadRequest, "minutes %q is no number from 1 to %d: more is not kept", text, MaxUsageMinutes)
		}
	}
	return q, nil
}

package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"mesos-gpu/job"
)

// ComputeETag is an ETag of what people can change of something. It does not change
// with what happens by itself, and is thus good for If-Match alone: no answer
// is kept by it.
func ComputeETag(of any) string {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // it is given texts, numbers and times alone
	}
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// JobETag is of a submission and how many tasks it wants: the rest of its
// specification stays.
func JobETag(j *job.Job) string {
	return ComputeETag([]int64{j.Submitted.UnixNano(), int64(j.WantedTasks())})
}

// QuotaETag is of a role's quota.
func QuotaETag(r *RoleStatus) string {
	return ComputeETag(struct {
		Quota map[string]int
		Set   bool
	}{r.Quota, r.QuotaSet})
}

// ScheduleETag is of the schedule, which stays as it was made.
func ScheduleETag(created time.Time) string { return ComputeETag(created.UnixNano()) }

// conditionalRequests are the changes that may be bound to a tag.
var conditionalRequests = []string{
	"DELETE /v1/jobs/{name}", "POST /v1/jobs/{name}/scale", "PUT /v1/roles/{role}/quota", "DELETE /v1/schedules/{name}",
	"POST /v1/agents/{id}/cordon", "POST /v1/agents/{id}/drain", "POST /v1/agents/{id}/uncordon",
}

// parseIfMatch has the request's context bind a change to the tags in its If-Match.
// Where that would mean nothing it is refused, not forgotten.
func parseIfMatch(r *http.Request, pattern string) (*http.Request, error) {
	values := r.Header.Values("If-Match")
	if len(values) == 0 {
		return r, nil
	}
	if !slices.Contains(conditionalRequests, r.Method+" "+pattern) {
		return r, NewProblemf(http.StatusBadRequest, "%s %s takes no If-Match", r.Method, r.URL.Path)
	}
	var tags []string
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		one = strings.TrimSpace(one)
		if one != "*" && !isQuoted(one) && !isQuoted(strings.TrimPrefix(one, "W/")) {
			return r, NewProblemf(http.StatusBadRequest, `If-Match: %s is neither * nor an ETag in quotes`, one)
		}
		tags = append(tags, one)
	}
	return r.WithContext(context.WithValue(r.Context(), ifMatchKey, tags)), nil
}

func isQuoted(text string) bool {
	return len(text) > 1 && text[0] == '"' && strings.IndexByte(text[1:], '"') == len(text)-2
}

// CheckIfMatch says what is in the way of a change to something that is there, with
// that tag now: nothing where the request wants none.
func CheckIfMatch(ctx context.Context, tag string) error {
	tags, bound := ctx.Value(ifMatchKey).([]string)
	if !bound || slices.Contains(tags, "*") || slices.Contains(tags, tag) {
		return nil
	}
	return NewProblemf(http.StatusPreconditionFailed, "it is another than If-Match says: it has the ETag %s now: look at it again", tag)
}

// writeJSONWithETag answers with a tag.
func writeJSONWithETag(w http.ResponseWriter, tag string, v any) {
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, v)
}

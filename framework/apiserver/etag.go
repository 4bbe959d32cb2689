package apiserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// ComputeETag returns an ETag of the fields that clients can change. It ignores fields
// that change by themselves, so it is only useful for If-Match, not for caching.
func ComputeETag(of any) string {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // callers pass only strings, numbers and times
	}
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// JobETag returns the ETag of a job: of its submission, its requested number of tasks, the version
// of a service, and the number of edits and holds.
func JobETag(j *job.Job, wantedTasks int) string {
	return ComputeETag([]int64{j.Submitted.UnixNano(), int64(wantedTasks), int64(j.Version), int64(j.Revision)})
}

// QuotaETag returns the ETag of a role's quota.
func QuotaETag(r *api.RoleStatus) string {
	return ComputeETag(struct {
		Quota map[string]int
		Set   bool
	}{r.Quota, r.QuotaSet})
}

// ScheduleETag returns the ETag of a schedule, which cannot change after creation.
func ScheduleETag(created time.Time) string { return ComputeETag(created.UnixNano()) }

// parseIfMatch stores the tags of If-Match in the request's context. It returns a
// *api.Problem if the request does not support If-Match or the header is malformed.
func parseIfMatch(r *http.Request, one *route) (*http.Request, error) {
	values := r.Header.Values("If-Match")
	if len(values) == 0 {
		return r, nil
	}
	if !one.takesIfMatch {
		return r, api.NewProblemf(http.StatusBadRequest, "%s %s takes no If-Match", r.Method, r.URL.Path)
	}
	var tags []string
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		one = strings.TrimSpace(one)
		if one != "*" && !isQuoted(one) && !isQuoted(strings.TrimPrefix(one, "W/")) {
			return r, api.NewProblemf(http.StatusBadRequest, `If-Match: %s is neither * nor an ETag in quotes`, one)
		}
		tags = append(tags, one)
	}
	return r.WithContext(context.WithValue(r.Context(), ifMatchKey, tags)), nil
}

// isQuoted reports whether a text is in quotes and contains no other quote.
func isQuoted(text string) bool {
	return len(text) > 1 && text[0] == '"' && strings.IndexByte(text[1:], '"') == len(text)-2
}

// CheckIfMatch returns an *api.Problem with status 412 if the request has an If-Match header
// that does not contain the present tag.
func CheckIfMatch(ctx context.Context, tag string) error {
	tags, bound := ctx.Value(ifMatchKey).([]string)
	if !bound || slices.Contains(tags, "*") || slices.Contains(tags, tag) {
		return nil
	}
	return api.NewProblemf(http.StatusPreconditionFailed, "it has changed: its ETag is %s, which If-Match does not contain: read it again", tag)
}

// setETag sets the headers of a response with an ETag.
func setETag(w http.ResponseWriter, tag string) {
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-store")
}

// writeJSONWithETag writes a response with an ETag.
func writeJSONWithETag(w http.ResponseWriter, tag string, v any) {
	setETag(w, tag)
	writeJSON(w, http.StatusOK, v)
}

package request

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

package leader

import (
	"maps"
	"net/http"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// submissionRates limits how many jobs users submit in a minute. Each user has a token bucket by each role that limits
// submissions: it holds the submissions of one minute, and is full at first. It is kept in memory: a new leader starts with
// full buckets. Only functions that run in the loop use it.
type submissionRates struct {
	buckets map[rateKey]tokenBucket
	// prunedAt is when full buckets were last removed.
	prunedAt time.Time
}

// rateKey identifies a bucket: role is the one whose entry limits the user.
type rateKey struct{ role, user string }

// tokenBucket limits the submissions of a user. Each one postpones the time at which the bucket is full by its part of a
// minute; the bucket is empty when that is a minute ahead.
type tokenBucket struct{ fullAt time.Time }

// add returns the bucket after one more submission, or how long that must wait.
func (b tokenBucket) add(now time.Time, perMinute int) (after tokenBucket, wait time.Duration) {
	fullAt := b.fullAt
	if fullAt.Before(now) {
		fullAt = now
	}
	if latest := now.Add(time.Minute); fullAt.After(latest) { // the clock was set back
		fullAt = latest
	}
	after.fullAt = fullAt.Add(time.Minute / time.Duration(perMinute))
	return after, after.fullAt.Sub(now.Add(time.Minute))
}

// take counts a submission in each role that limits its user, or returns a Problem that says when the next one is
// permitted. A refused submission counts nowhere. Jobs without an owner are not limited: there are no users then.
func (r *submissionRates) take(now time.Time, roles []queue.Role, spec *job.Spec) error {
	if spec.Owner == "" {
		return nil
	}
	taken := map[rateKey]tokenBucket{}
	for i := range roles {
		role := &roles[i]
		perMinute := role.UserLimits(spec.Owner).SubmissionsPerMinute
		if perMinute == 0 || !quota.IsWithinRole(spec.Role, role.Name) {
			continue
		}
		key := rateKey{role.Name, spec.Owner}
		after, wait := r.buckets[key].add(now, perMinute)
		if wait > 0 {
			wait = (wait + time.Second - 1).Truncate(time.Second)
			p := api.NewProblemf(http.StatusTooManyRequests,
				"user %s may submit %d jobs a minute in role %q and has submitted as many: submit again in %s",
				spec.Owner, perMinute, role.Name, wait)
			p.Retryable, p.RetryAfter = true, wait
			return p.WithCode(api.CodeTooManySubmissions, spec.Owner)
		}
		taken[key] = after
	}
	if r.buckets == nil {
		r.buckets = map[rateKey]tokenBucket{}
	}
	maps.Copy(r.buckets, taken)
	r.prune(now)
	return nil
}

// prune removes, once a minute, the buckets that are full, which have the same effect as none.
func (r *submissionRates) prune(now time.Time) {
	if now.Sub(r.prunedAt) < time.Minute && !now.Before(r.prunedAt) {
		return
	}
	r.prunedAt = now
	for key, b := range r.buckets {
		if !b.fullAt.After(now) {
			delete(r.buckets, key)
		}
	}
}

// waitingJobsScope returns whose limit of waiting jobs an error is about: of a role or of a client.
func waitingJobsScope(e *sched.LimitError) string {
	if e.User == "" {
		return "role"
	}
	return "client"
}

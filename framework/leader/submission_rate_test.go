package leader

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// TestSubmissionRates: a user may submit as many jobs at once as in a minute, then one each time a part of the minute has
// passed; roles below count too, other users and jobs without a user do not.
func TestSubmissionRates(t *testing.T) {
	roles := []queue.Role{
		{Name: "research", EachUser: quota.UserLimits{SubmissionsPerMinute: 3}, NamedUsers: map[string]quota.UserLimits{"bob": {}, "cid": {SubmissionsPerMinute: 1}}},
		{Name: "research/vision"}, {Name: "researchers"},
	}
	var rates submissionRates
	now := time.Unix(1_700_000_000, 0)
	submit := func(role, user string) (wait time.Duration, detail string) {
		err := rates.take(now, roles, &job.Spec{Role: role, Owner: user})
		var p *api.Problem
		if err == nil {
			return 0, ""
		}
		if !errors.As(err, &p) || p.Status != http.StatusTooManyRequests || p.Code != api.CodeTooManySubmissions || !p.Retryable || p.RetryAfter <= 0 {
			t.Fatalf("got %+v", p)
		}
		return p.RetryAfter, p.Detail
	}
	for i, c := range []struct {
		passed     time.Duration
		role, user string
		wait       time.Duration
	}{
		{0, "research", "alice", 0},
		{0, "research/vision", "alice", 0},
		{0, "research", "alice", 0},
		{0, "research", "alice", 20 * time.Second},
		{0, "research/vision", "alice", 20 * time.Second},
		{0, "researchers", "alice", 0},
		{0, "research", "", 0},
		{0, "research", "bob", 0},
		{0, "research", "cid", 0},
		{0, "research", "cid", time.Minute},
		{15 * time.Second, "research", "alice", 5 * time.Second},
		{6 * time.Second, "research", "alice", 0},
		{0, "research", "alice", 19 * time.Second},
		{-time.Hour, "research", "alice", 20 * time.Second}, // the clock was set back
		{3 * time.Hour, "research", "alice", 0},
		{0, "research", "alice", 0},
		{0, "research", "alice", 0},
		{0, "research", "alice", 20 * time.Second},
	} {
		now = now.Add(c.passed)
		wait, detail := submit(c.role, c.user)
		if wait != c.wait {
			t.Fatalf("%d: %s in role %s waits %s, want %s", i, c.user, c.role, wait, c.wait)
		}
		if wait > 0 && c.user == "alice" && !strings.Contains(detail, `user alice may submit 3 jobs a minute in role "research"`) {
			t.Errorf("%d: %s", i, detail)
		}
	}
	now = now.Add(2 * time.Minute)
	if submit("research", "cid"); len(rates.buckets) != 1 {
		t.Errorf("%d buckets are kept, want that of cid: %v", len(rates.buckets), rates.buckets)
	}
}

package framework

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// submitAs posts a job through a plain HTTP client, and returns the status, the problem and the time in Retry-After.
func (g *guardedConfig) submitAs(t *testing.T, who string, in *testInstance, spec job.Spec) (status int, p api.Problem, retryAfter string) {
	t.Helper()
	transport, err := g.newLeaderTransport()
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URLFor(in.addr)+"/v1/jobs", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+g.tokens[who])
	r.Header.Set("Content-Type", "application/json")
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_ = json.NewDecoder(res.Body).Decode(&p) // of a job only the status matters
	return res.StatusCode, p, res.Header.Get("Retry-After")
}

// TestUserLimits: submissions above the limits of the roles file are refused with a code, both numbers and, for the rate,
// the time until the next one; the roles show what each user has of the limits.
func TestUserLimits(t *testing.T) {
	g := newGuardedConfig(t)
	var now atomic.Int64
	now.Store(time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC).Unix())
	in, _ := startGuarded(t, &g, func() time.Time { return time.Unix(now.Load(), 0) })
	ctx, ops := longTimeout(t), g.clientAs(t, "ops", in)
	if _, err := ops.ListRoles(ctx); err != nil { // once it leads
		t.Fatal(err)
	}
	change := func(text string) {
		t.Helper()
		if err := os.WriteFile(in.cfg.RolesFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := in.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	spec := func(name string) job.Spec {
		s := frameworktest.JobSpec(name, 1, 64) // more GPUs than there are: it waits
		s.Role = "research"
		return s
	}

	change("research: {waiting_jobs: 3, user: {gpus: \"*=4\", running_jobs: 1, waiting_jobs: 2}, users: {ops: {waiting_jobs: none}}}\nprod: {}\n")
	for _, name := range []string{"a", "b"} {
		if status, p, _ := g.submitAs(t, "alice", in, spec(name)); status != http.StatusCreated {
			t.Fatalf("job %s: %d, %s", name, status, p.Detail)
		}
	}
	status, p, retry := g.submitAs(t, "alice", in, spec("c"))
	if status != http.StatusUnprocessableEntity || p.Code != api.CodeTooManyWaitingJobs || p.Name != "alice" || p.Retryable || retry != "" ||
		!strings.HasPrefix(p.Detail, `user alice in role "research" has 2 waiting jobs, 1 more would pass the limit of 2: wait for some to start, or kill some`) {
		t.Errorf("got %d, %+v", status, p)
	}
	_, err := g.clientAs(t, "alice", in).SubmitJob(ctx, spec("c")) // the Go client reports it at once
	if problem := new(api.Problem); !errors.As(err, &problem) || problem.Code != api.CodeTooManyWaitingJobs {
		t.Errorf("got %v", err)
	}
	if _, err := ops.SubmitJob(ctx, spec("d")); err != nil {
		t.Errorf("a user without the limit: %v", err)
	}
	if _, err := ops.SubmitJob(ctx, spec("e")); err == nil ||
		!strings.Contains(err.Error(), `role "research" has 3 waiting jobs, 1 more would pass the limit of 3`) {
		t.Errorf("got %v", err)
	}
	view, err := ops.GetJob(ctx, "a")
	if want := "user alice may hold 4 GPUs in role research and holds 0: it can never start"; err != nil || !strings.Contains(view.WaitReason, want) {
		t.Errorf("reason %q, %v", view.WaitReason, err)
	}

	roles, err := ops.ListRoles(ctx)
	if err != nil || roles[0].UserLimits == nil {
		t.Fatalf("roles %+v, %v", roles, err)
	}
	got, _ := json.Marshal(roles[0].UserLimits)
	if want := `{"each":{"gpus":{"*":4},"running_jobs":1,"waiting_jobs":2},"users":[` +
		`{"user":"alice","limits":{"gpus":{"*":4},"running_jobs":1,"waiting_jobs":2},"held":{},"running_jobs":0,"waiting_jobs":2},` +
		`{"user":"ops","limits":{"gpus":{"*":4},"running_jobs":1},"held":{},"running_jobs":0,"waiting_jobs":1}]}`; string(got) != want {
		t.Errorf("limits of users\n%s, want\n%s", got, want)
	}
	if r := roles[0]; r.WaitingJobs != 3 || r.WaitingJobsLimit != 3 {
		t.Errorf("%d of at most %d jobs wait", r.WaitingJobs, r.WaitingJobsLimit)
	}
	if roles[1].UserLimits != nil {
		t.Errorf("a role without limits has %+v", roles[1].UserLimits)
	}

	change("research: {user: {submissions_per_minute: 2}}\nprod: {}\n")
	for _, c := range []struct {
		name   string
		status int
		retry  string
	}{{"r1", http.StatusCreated, ""}, {"r2", http.StatusCreated, ""}, {"r3", http.StatusTooManyRequests, "30"}, {"r2", http.StatusConflict, ""}} {
		if status, p, retry := g.submitAs(t, "alice", in, spec(c.name)); status != c.status || retry != c.retry ||
			(c.retry != "" && (!p.Retryable || p.Code != api.CodeTooManySubmissions)) {
			t.Errorf("%s: got %d, %s, Retry-After %q", c.name, status, p.Detail, retry)
		}
	}
	now.Add(30)
	if status, p, _ := g.submitAs(t, "alice", in, spec("r3")); status != http.StatusCreated {
		t.Errorf("after Retry-After: %d, %s", status, p.Detail)
	}
	_, metrics := g.getAs(t, "ops", in, "/metrics")
	for _, want := range []string{
		`mesos_gpu_scheduler_api_rejected_total{limit="client",resource="submissions"} 1`,
		`mesos_gpu_scheduler_api_rejected_total{limit="client",resource="waiting_jobs"} 2`,
		`mesos_gpu_scheduler_api_rejected_total{limit="role",resource="waiting_jobs"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	in.stopAndWait(t)
}

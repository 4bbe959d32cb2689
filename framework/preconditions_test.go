package framework

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// sendRequest sends a request and returns the status, the ETag and the body.
func sendRequest(t *testing.T, in *testInstance, method, path, body, match string) (int, string, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+in.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if match != "" {
		r.Header.Set("If-Match", match)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("ETag"), string(text)
}

// TestPreconditionsOfChanges: each kind of change is applied if If-Match is the current
// ETag or *, and rejected for another ETag. It changes the ETag, which then survives a
// restart.
func TestPreconditionsOfChanges(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	if _, err := in.SubmitJob(frameworktest.Timeout(t), frameworktest.ServiceSpec("web", 1)); err != nil {
		t.Fatal(err)
	}
	agent := awaitState(t, in, "web", job.Running).Tasks[0].AgentID
	s := frameworktest.JobSpec("nightly", 1, 0)
	s.Schedule = &job.Schedule{Cron: "0 3 * * *"}
	if _, err := in.AddSchedule(frameworktest.Timeout(t), s); err != nil {
		t.Fatal(err)
	}
	_, roles, _ := sendRequest(t, in, "GET", "/v1/roles", "", "")
	if roles != "" {
		t.Errorf("a list has the tag %s", roles)
	}
	list, err := in.ListRoles(frameworktest.Timeout(t))
	if err != nil {
		t.Fatal(err)
	}
	role := "/v1/roles/" + strings.ReplaceAll(list[0].Name, "*", "%2A")
	for _, one := range []struct {
		look, method, change, body string
		ends                       bool
	}{
		{look: "/v1/jobs/web", method: "POST", change: "/v1/jobs/web/scale", body: `{"tasks":2}`},
		{look: "/v1/jobs/web", method: "PUT", change: "/v1/jobs/web/hold", body: `{}`},
		{look: "/v1/jobs/web", method: "DELETE", change: "/v1/jobs/web/hold"},
		{look: "/v1/jobs/web", method: "POST", change: "/v1/jobs/web/requeue", body: `{"hold":true}`},
		{look: role, method: "PUT", change: role + "/quota", body: `{"quota":"*=3"}`},
		{look: "/v1/agents/" + agent, method: "POST", change: "/v1/agents/" + agent + "/cordon", body: `{"reason":"fan"}`},
		{look: "/v1/agents/" + agent, method: "POST", change: "/v1/agents/" + agent + "/drain", body: `{"reason":"fan"}`},
		{look: "/v1/agents/" + agent, method: "POST", change: "/v1/agents/" + agent + "/uncordon", body: `{}`},
		{look: "/v1/schedules/nightly", method: "DELETE", change: "/v1/schedules/nightly", ends: true},
	} {
		_, tag, body := sendRequest(t, in, "GET", one.look, "", "")
		if len(tag) < 3 || tag[0] != '"' {
			t.Fatalf("%s: tag %q of %s", one.look, tag, body)
		}
		if code, _, body := sendRequest(t, in, one.method, one.change, one.body, `"stale", W/`+tag); code != http.StatusPreconditionFailed ||
			!strings.Contains(body, strings.Trim(tag, `"`)) {
			t.Errorf("%s, stale: got %d %s", one.change, code, body)
		}
		if _, still, _ := sendRequest(t, in, "GET", one.look, "", ""); still != tag {
			t.Errorf("%s: a rejected change changed the ETag %s to %s", one.change, tag, still)
		}
		if code, _, body := sendRequest(t, in, one.method, one.change, one.body, `"stale", `+tag); code >= 300 {
			t.Errorf("%s, in time: got %d %s", one.change, code, body)
		}
		if one.ends {
			continue
		}
		_, next, _ := sendRequest(t, in, "GET", one.look, "", "")
		if next == tag {
			t.Errorf("%s: the ETag is still %s", one.change, tag)
		}
		if code, _, _ := sendRequest(t, in, one.method, one.change, one.body, tag); code != http.StatusPreconditionFailed {
			t.Errorf("%s, again: got %d, want 412", one.change, code)
		}
		if code, _, body := sendRequest(t, in, one.method, one.change, one.body, "*"); code >= 300 {
			t.Errorf("%s, any: got %d %s", one.change, code, body)
		}
	}
	_, before, _ := sendRequest(t, in, "GET", "/v1/jobs/web", "", "")
	in.stopAndWait(t)
	in = startWithJournal(t, c, path)
	if _, err := in.GetJob(t.Context(), "web"); err != nil { // waits for the leader
		t.Fatal(err)
	}
	if _, after, _ := sendRequest(t, in, "GET", "/v1/jobs/web", "", ""); after != before {
		t.Errorf("a restart has changed the tag %s to %s", before, after)
	}
	for _, one := range []struct {
		method, path, match string
		status              int
	}{
		{"DELETE", "/v1/jobs/unknown", "*", http.StatusNotFound},
		{"DELETE", "/v1/jobs/web", "unquoted", http.StatusBadRequest},
		{"POST", "/v1/jobs", "*", http.StatusBadRequest},
		{"DELETE", "/v1/jobs/web", `"stale"`, http.StatusPreconditionFailed},
		{"DELETE", "/v1/jobs/web", before, http.StatusAccepted},
	} {
		if code, _, body := sendRequest(t, in, one.method, one.path, "{}", one.match); code != one.status {
			t.Errorf("%s %s, If-Match %s: got %d %s, want %d", one.method, one.path, one.match, code, body, one.status)
		}
	}
}

// TestTagIdentifiesSubmission: a job's ETag is constant while the job runs, and a new job
// with the same name has another one.
func TestTagIdentifiesSubmission(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := frameworktest.Timeout(t)
	tag := func() string {
		_, tag, _ := sendRequest(t, in, "GET", "/v1/jobs/train", "", "")
		return tag
	}
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 0)); err != nil {
		t.Fatal(err)
	}
	waiting := tag()
	awaitState(t, in, "train", job.Running)
	if running := tag(); running != waiting {
		t.Errorf("the ETag was %s and is %s while the job runs", waiting, running)
	}
	if err := in.KillJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.WaitForJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 0)); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := sendRequest(t, in, "DELETE", "/v1/jobs/train", "", waiting); code != http.StatusPreconditionFailed {
		t.Errorf("another job was killed with the ETag of the first: %d", code)
	}
}

// TestReadiness: a leader is ready, and so is a standby that knows a leader; a scheduler
// that is starting is not.
func TestReadiness(t *testing.T) {
	c, server := mesostest.NewCluster(t, 1), zktest.StartServer(t)
	cfg := SchedulerConfig{JournalPath: "zk://" + server.Addr() + "/mesos-gpu/test", SessionTimeout: lasting}
	first := startInstance(t, c, cfg)
	awaitRole(t, first, api.Leader)
	second := startInstance(t, c, cfg)
	awaitRole(t, second, api.Standby)
	for _, in := range []*testInstance{first, second} {
		awaitCondition(t, in.addr+" is ready", func() bool { // a standby also needs a timely reply from ZooKeeper
			code, _, body := sendRequest(t, in, "GET", "/readyz", "", "")
			return code == http.StatusOK && strings.Contains(body, `"role":`)
		})
	}
	second.Scheduler.setBackend(apiserver.NewUnavailableBackend("the scheduler is starting"))
	if code, _, body := sendRequest(t, second, "GET", "/readyz", "", ""); code != http.StatusServiceUnavailable || !strings.Contains(body, "is starting") {
		t.Errorf("before the scheduler started: %d %s", code, body)
	}
}

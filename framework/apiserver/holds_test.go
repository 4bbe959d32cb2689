package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

func (f *fakeBackend) HoldJob(_ context.Context, _ request.Change, name, reason string) error {
	f.did = fmt.Sprintf("hold %s: %s", name, reason)
	return f.err
}
func (f *fakeBackend) ReleaseJob(_ context.Context, _ request.Change, name string) error {
	f.did = "release " + name
	return f.err
}
func (f *fakeBackend) RequeueJob(_ context.Context, _ request.Change, name string, q api.RequeueRequest) error {
	f.did = fmt.Sprintf("requeue %s %+v", name, q)
	return f.err
}
func (f *fakeBackend) HoldJobsOf(_ context.Context, _ *access.Grant, target job.HoldTarget, q api.HoldRequest) error {
	f.did = fmt.Sprintf("hold %s %+v", target, q)
	return f.err
}
func (f *fakeBackend) ReleaseJobsOf(_ context.Context, _ *access.Grant, target job.HoldTarget) error {
	f.did = "release " + target.String()
	return f.err
}
func (f *fakeBackend) ListHolds(context.Context) ([]api.HoldView, error) {
	return []api.HoldView{
		{Kind: job.HeldUser, Name: "viewer", Hold: job.Hold{By: "root"}}, {Kind: job.HeldUser, Name: "else"},
		{Kind: job.HeldRole, Name: "prod"}, {Kind: job.HeldRole, Name: "research/vision"},
	}, f.err
}

func TestHoldsAndEdits(t *testing.T) {
	long := strings.Repeat("x", maxReason+1)
	for _, c := range []struct {
		method, path, body string
		status             int
		did                string // or a part of the answer
	}{
		{"PUT", "/v1/jobs/train/hold", `{"reason":"data"}`, 202, "hold train: data"},
		{"PUT", "/v1/jobs/train/hold", `{"drain":true}`, 422, "it is for users and roles"},
		{"PUT", "/v1/jobs/train/hold", `{"reason":"` + long + `"}`, 422, "at most 1024 are kept"},
		{"PUT", "/v1/jobs/train/hold", `{"why":""}`, 400, "unknown field"},
		{"DELETE", "/v1/jobs/train/hold", "", 202, "release train"},
		{"POST", "/v1/jobs/train/requeue", `{"hold":true,"reason":"data"}`, 202, "requeue train {Reason:data Hold:true}"},
		{"POST", "/v1/jobs/train/requeue", `{"reason":"` + long + `"}`, 422, "at most 1024 are kept"},
		{"PUT", "/v1/roles/lab%2Fvision/hold", `{"drain":true}`, 202, "hold role lab/vision {Reason: Drain:true}"},
		{"DELETE", "/v1/roles/lab/hold", "", 202, "release role lab"},
		{"PUT", "/v1/users/oidc:carol/hold", `{}`, 202, "hold user oidc:carol {Reason: Drain:false}"},
		{"PUT", "/v1/users/" + long + "/hold", `{}`, 422, "at most 256 are possible"},
		{"DELETE", "/v1/users/carol/hold", "", 202, "release user carol"},
		{"PATCH", "/v1/jobs/train", `{"priority": 7, "timeout": "90m"}`, 200, "edit train: priority 7, timeout 1h30m0s"},
		{"PATCH", "/v1/jobs/train", `{"image": "x"}`, 422, "cannot be changed after the submission"},
		{"PATCH", "/v1/jobs/train", `{"priority": [}`, 422, "edit"},
		{"PATCH", "/v1/jobs/train", `{"labels": {"a": "` + strings.Repeat("x", maxBody) + `"}}`, 413, "the body is larger"},
		{"GET", "/v1/jobs/train/hold", "", 405, "takes DELETE or PUT"},
	} {
		f := &fakeBackend{}
		status, _, body := sendRequest(t, c.method, serveBackend(t, f).URL+c.path, c.body)
		if status != c.status || f.did != c.did && !strings.Contains(body, c.did) {
			t.Errorf("%s %.80s: %d, did %q, answered %s; want %d, %q", c.method, c.path, status, f.did, body, c.status, c.did)
		}
	}
}

// TestListedHoldsAreVisible: a requester sees the holds of the roles whose jobs it sees, and that of its own jobs.
func TestListedHoldsAreVisible(t *testing.T) {
	url := serveWithPolicy(t, &fakeBackend{}, rolePolicy())
	for who, want := range map[string]string{"viewer": "viewer research/vision", "stranger": "prod", "root": "viewer else prod research/vision"} {
		_, _, body := sendRequest(t, http.MethodGet, url+"/v1/holds", "", "Who", who)
		var list api.HoldList
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, h := range list.Holds {
			names = append(names, h.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s sees %q, want %q", who, got, want)
		}
	}
	if status, _, _ := sendRequest(t, http.MethodPut, url+"/v1/users/submitter/hold", "{}", "Who", "submitter"); status != http.StatusAccepted {
		t.Errorf("a user holds the user's own jobs: %d", status)
	}
}

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
)

func (f *fakeBackend) ListQueue(context.Context, *access.Grant, api.PageRequest) (api.QueueList, error) {
	return api.QueueList{Next: f.next}, f.err
}
func (f *fakeBackend) ListRoles(context.Context) ([]api.RoleStatus, error) { return nil, f.err }
func (f *fakeBackend) GetDemand(context.Context) (api.DemandList, error) {
	return api.DemandList{Demand: f.demand}, f.err
}

func (f *fakeBackend) SetQuota(_ context.Context, _ request.Change, role string, quota *string) (api.RoleStatus, error) {
	f.did = "quota of " + role + " as in the file"
	if quota != nil {
		f.did = fmt.Sprintf("quota of %s %q", role, *quota)
	}
	return api.RoleStatus{Name: role}, f.err
}

func (f *fakeBackend) CordonAgent(_ context.Context, _ request.Change, agent, reason string, drain bool) error {
	f.did = fmt.Sprintf("cordon %s for %q, drain %t", agent, reason, drain)
	return f.err
}

func (f *fakeBackend) UncordonAgent(_ context.Context, _ request.Change, agent string) error {
	f.did = "uncordon " + agent
	return f.err
}

func TestOperations(t *testing.T) {
	tests := map[string]struct {
		method, path, body string
		err                error
		status             int
		contains, did      string
	}{
		"queue":           {method: "GET", path: "/v1/queue", status: 200, contains: `{"jobs":[]}`},
		"queue, broken":   {method: "GET", path: "/v1/queue", err: errors.New("disk"), status: 500, contains: "disk"},
		"roles":           {method: "GET", path: "/v1/roles", status: 200, contains: `{"roles":[]}`},
		"roles, broken":   {method: "GET", path: "/v1/roles", err: errors.New("disk"), status: 500, contains: "disk"},
		"demand":          {method: "GET", path: "/v1/demand", status: 200, contains: `{"demand":[],"settling":[]}`},
		"demand, not yet": {method: "GET", path: "/v1/demand", err: api.NewUnavailable("too soon"), status: 503, contains: "too soon"},
		"quota": {method: "PUT", path: "/v1/roles/research/quota", body: `{"quota":"V100=8, *=16"}`, status: 200,
			contains: `"name":"research"`, did: `quota of research "V100=8, *=16"`},
		"quota of all": {method: "PUT", path: "/v1/roles/*/quota", body: `{"quota":""}`, status: 200, did: `quota of * ""`},
		"quota of a role below": {method: "PUT", path: "/v1/roles/research%2Fvision/quota", body: `{"quota":null}`, status: 200,
			did: "quota of research/vision as in the file"},
		"quota, which":    {method: "PUT", path: "/v1/roles/research/quota", body: `{}`, status: 422, contains: "quota: say what"},
		"quota, no text":  {method: "PUT", path: "/v1/roles/research/quota", body: `{"quota":8}`, status: 422, contains: "quota: say what"},
		"quota, misspelt": {method: "PUT", path: "/v1/roles/research/quota", body: `{"qouta":""}`, status: 400, contains: "unknown field"},
		"quota, refused": {method: "PUT", path: "/v1/roles/unknown/quota", body: `{"quota":""}`,
			err: api.NewProblemf(404, "no role"), status: 404, contains: "no role", did: `quota of unknown ""`},
		"quota, read": {method: "GET", path: "/v1/roles/research/quota", status: 405, contains: "takes PUT"},
		"cordon": {method: "POST", path: "/v1/agents/S1/cordon", body: `{"reason":"new fans"}`, status: 202,
			did: `cordon S1 for "new fans", drain false`},
		"cordon, why": {method: "POST", path: "/v1/agents/S1/cordon", body: `{}`, status: 202, did: `cordon S1 for "no reason given", drain false`},
		"cordon, at length": {method: "POST", path: "/v1/agents/S1/cordon",
			body: `{"reason":"` + strings.Repeat("x", 1025) + `"}`, status: 422, contains: "it has 1025 bytes, at most 1024"},
		"cordon, no body": {method: "POST", path: "/v1/agents/S1/cordon", status: 400, contains: "parse body"},
		"cordon, refused": {method: "POST", path: "/v1/agents/S9/cordon", body: `{}`,
			err: api.NewProblemf(404, "no agent"), status: 404, contains: "no agent",
			did: `cordon S9 for "no reason given", drain false`},
		"drain": {method: "POST", path: "/v1/agents/host.example/drain", body: `{"reason":"new fans"}`,
			status: 202, did: `cordon host.example for "new fans", drain true`},
		"uncordon":      {method: "POST", path: "/v1/agents/S1/uncordon", body: `{}`, status: 202, did: "uncordon S1"},
		"uncordon, why": {method: "POST", path: "/v1/agents/S1/uncordon", body: `{"reason":"x"}`, status: 400, contains: "unknown field"},
		"uncordon, refused": {method: "POST", path: "/v1/agents/S9/uncordon", body: `{}`,
			err: api.NewProblemf(404, "no agent"), status: 404, contains: "no agent", did: "uncordon S9"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := &fakeBackend{err: tt.err}
			status, _, body := sendRequest(t, tt.method, serveBackend(t, f).URL+tt.path, tt.body)
			if status != tt.status || !strings.Contains(body, tt.contains) {
				t.Errorf("got %d %s, want %d with %s", status, body, tt.status, tt.contains)
			}
			if f.did != tt.did {
				t.Errorf("the backend executed %q, want %q", f.did, tt.did)
			}
		})
	}
}

// TestDemandResponse checks that requirements which are not set are empty or omitted.
func TestDemandResponse(t *testing.T) {
	f := &fakeBackend{demand: []api.UnmetDemand{
		{Type: "A100", Types: []string{"A100"}, GPUs: 8, PerAgent: 4, InsufficientResources: []string{"gpus"},
			Topology: "nvlink", Tasks: 2, Jobs: []string{"train"}, Roles: []string{"research"}, CPUs: 8.1, TaskMemMiB: 4128},
		{Type: api.AnyType, Types: []string{}, PerAgent: 1, InsufficientResources: []string{"cpus"},
			Share: &gpu.ShareRequest{Cores: 30}, Tasks: 1, Jobs: []string{"part"}, Roles: []string{"*"}},
	}}
	_, _, got := sendRequest(t, "GET", serveBackend(t, f).URL+"/v1/demand", "")
	want := `{"demand":[` +
		`{"type":"A100","types":["A100"],"gpus":8,"per_agent":4,"short":["gpus"],"mem_mib":0,"topology":"nvlink","tasks":2,"jobs":["train"],"roles":["research"],"cpus":8.1,"task_mem_mib":4128},` +
		`{"type":"any","types":[],"gpus":0,"per_agent":1,"short":["cpus"],"share":{"cores":30},"mem_mib":0,"topology":"","tasks":1,"jobs":["part"],"roles":["*"],"cpus":0,"task_mem_mib":0}` +
		`],"settling":[]}` + "\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

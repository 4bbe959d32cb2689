package apiserver

import (
	"context"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// ListUsage returns one task for each job.
func (f *fakeBackend) ListUsage(_ context.Context, _ *access.Grant, q request.UsageQuery) (api.UsageList, error) {
	f.did = fmt.Sprintf("use of job %q, role %q, task %q, agent %q, %d min", q.Job, q.Role, q.Task, q.Agent, q.Minutes)
	var list []api.TaskUsage
	for i := range f.jobs {
		s := f.jobs[i].Spec
		list = append(list, api.TaskUsage{Task: s.Name + ".0", Job: s.Name, Role: s.Role, Devices: []gpu.DeviceUsage{{UUID: "GPU-a"}}, Note: "made up"})
	}
	return api.UsageList{Tasks: list, Next: f.next}, f.err
}

func TestUsage(t *testing.T) {
	f := &fakeBackend{}
	url := serveBackend(t, f).URL
	if status, _, body := sendRequest(t, "GET", url+"/v1/usage", ""); status != 200 || body != `{"tasks":[]}`+"\n" {
		t.Errorf("nothing runs: %d %s", status, body)
	}
	f.jobs = []api.JobView{{Job: job.Job{Spec: &job.Spec{Name: "train", Role: "research"}}}}
	status, _, body := sendRequest(t, "GET", url+"/v1/usage?job=train&role=research&task=train.0&agent=a1&minutes=15", "")
	want := `{"tasks":[{"task":"train.0","job":"train","index":0,"role":"research","hostname":"","devices":[{"uuid":"GPU-a"}],"note":"made up"}]}` + "\n"
	if diff := gocmp.Diff(want, body); status != 200 || diff != "" {
		t.Errorf("status %d (-want +got):\n%s", status, diff)
	}
	if want := `use of job "train", role "research", task "train.0", agent "a1", 15 min`; f.did != want {
		t.Errorf("the backend did %s, want %s", f.did, want)
	}
	for _, minutes := range []string{"0", "16", "-1", "x", "1.5", "99999999999999999999"} {
		if status, kind, body := sendRequest(t, "GET", url+"/v1/usage?minutes="+minutes, ""); status != 400 ||
			kind != apihttp.ProblemMediaType || !strings.Contains(body, "from 1 to 15") {
			t.Errorf("minutes %s: %d %s %s", minutes, status, kind, body)
		}
	}
	f.err = api.NewProblemf(404, "there is no job")
	if status, kind, _ := sendRequest(t, "GET", url+"/v1/usage?job=x", ""); status != 404 || kind != apihttp.ProblemMediaType {
		t.Errorf("an unknown job: %d %s", status, kind)
	}
}

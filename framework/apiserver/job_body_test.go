package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// problemDetail returns the detail of a problem.
func problemDetail(t *testing.T, body string) string {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return p.Detail
}

const jobYAML = `# what a person writes
name: train
gpus: 2
command: "true"
mem: 4GiB
`

// TestJobFiles checks that the backend gets the job which jobfile parses, and that errors
// have line numbers. JSON is parsed as a job file if the content type says so.
func TestJobFiles(t *testing.T) {
	want, err := jobfile.Read(strings.NewReader(jobYAML), "want")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range append([]string{"application/yaml; charset=utf-8", "Application/YAML"}, yamlMediaTypes...) {
		for _, body := range []string{jobYAML, `{"name":"train","gpus":2,"command":"true","mem":"4GiB"}`} {
			f := &fakeBackend{}
			status, _, text := sendRequest(t, "POST", serveBackend(t, f).URL+"/v1/jobs", body, "Content-Type", kind)
			if status != 201 {
				t.Fatalf("%s: %d %s", kind, status, text)
			}
			if diff := cmp.Diff(*want, f.submitted); diff != "" {
				t.Errorf("%s (-want +got):\n%s", kind, diff)
			}
		}
	}
	for name, c := range map[string]struct {
		path, body string
		status     int
		want       string
	}{
		"mistakes":       {"/v1/jobs", "name: train\ngpuz: 1\nmem: lots\n", 422, "job file:2:1: unknown key \"gpuz\"; did you mean \"gpus\"?\njob file:3:6: mem: "},
		"goes with none": {"/v1/jobs", "name: train\ncommand: x\nservice: true\nretries: 1\n", 422, "job file:4:10: retries: "},
		"nothing":        {"/v1/jobs", "", 422, "empty"},
		"two jobs":       {"/v1/jobs", jobYAML + "---\n" + jobYAML, 422, "a second document"},
		"no YAML":        {"/v1/jobs", "a: [", 422, "job file:1:4: the [ is not closed"},
		"too large":      {"/v1/jobs", "name: " + strings.Repeat("x", maxBody), 413, "1048576 bytes"},
		"no schedule":    {"/v1/schedules", jobYAML, 422, "schedule: a time is required"},
		"schedule":       {"/v1/schedules", jobYAML + "schedule: 0 3 * *\n", 422, "job file:6:11: schedule: cron "},
	} {
		status, kind, body := sendRequest(t, "POST", serveBackend(t, &fakeBackend{}).URL+c.path, c.body, "Content-Type", "application/yaml")
		if status != c.status || kind != apihttp.ProblemMediaType || !strings.Contains(problemDetail(t, body), c.want) {
			t.Errorf("%s: got %d %s, want %d with %q", name, status, body, c.status, c.want)
		}
	}
}

// TestReservedLabelsAndGroups checks that no request sets what marks the jobs of Marathon apps, in any form of the
// body, and that the problem's code and name identify the mistake.
func TestReservedLabelsAndGroups(t *testing.T) {
	for _, c := range []struct{ path, kind, body, name string }{
		{"/v1/jobs", "application/yaml", jobYAML + "labels: {marathon.app: /prod/api}\n", "marathon.app"},
		{"/v1/jobs", "application/yaml", jobYAML + "labels: {marathon.version: x}\n", "marathon.version"},
		{"/v1/jobs", "application/json", `{"name":"a","command":["x"],"labels":{"marathon.app":"/prod/api"}}`, "marathon.app"},
		{"/v1/jobs", "application/json", `{"name":"a","command":["x"],"group":"/prod/api"}`, "/prod/api"},
		{"/v1/schedules", "application/yaml", jobYAML + "schedule: \"0 3 * * *\"\ngroup: /prod/api\n", "/prod/api"},
	} {
		status, _, body := sendRequest(t, "POST", serveBackend(t, &fakeBackend{}).URL+c.path, c.body, "Content-Type", c.kind)
		var p api.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || status != 422 || p.Code != api.CodeReserved || p.Name != c.name {
			t.Errorf("%s: got %d %s, want 422 and code %s of %s", c.body, status, body, api.CodeReserved, c.name)
		}
	}
	if status, _, body := sendRequest(t, "POST", serveBackend(t, &fakeBackend{}).URL+"/v1/jobs",
		jobYAML+"group: web/front\nlabels: {marathon: x}\n", "Content-Type", "application/yaml"); status != 201 {
		t.Errorf("another group and label: %d %s", status, body)
	}
}

// scheduleBackendStub is a Backend that stores the added schedule.
type scheduleBackendStub struct {
	*fakeBackend
	kept *job.Spec
}

func (s scheduleBackendStub) AddSchedule(_ context.Context, _ *access.Grant, spec job.Spec) (api.ScheduleView, string, error) {
	*s.kept = spec
	return api.ScheduleView{Spec: spec}, "", nil
}

// TestScheduleFiles checks that the schedules path accepts job files with a schedule.
func TestScheduleFiles(t *testing.T) {
	f := scheduleBackendStub{&fakeBackend{}, &job.Spec{}}
	s := httptest.NewServer(NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger()))
	defer s.Close()
	status, _, body := sendRequest(t, "POST", s.URL+"/v1/schedules", jobYAML+"schedule: \"0 3 * * *\"\n", "Content-Type", "application/yaml")
	if status != 201 || f.kept.Request.GPUs != 2 || f.kept.Schedule == nil {
		t.Errorf("got %d %s, %+v", status, body, f.kept)
	}
}

// TestIdempotencyKeyOfJobFile checks that order, whitespace, comments and styles of a job
// file do not change its digest, and that its content does.
func TestIdempotencyKeyOfJobFile(t *testing.T) {
	submit := func(body string) job.ClientKey {
		t.Helper()
		f := &fakeBackend{}
		status, _, text := sendRequest(t, "POST", serveBackend(t, f).URL+"/v1/jobs", body, "Content-Type", "application/yaml", api.IdempotencyKey, "k")
		if status != 201 || f.submitted.ClientKey == nil || f.submitted.ClientKey.Key != "k" || len(f.submitted.ClientKey.Digest) != 32 {
			t.Fatalf("%d %s, %+v", status, text, f.submitted.ClientKey)
		}
		return *f.submitted.ClientKey
	}
	first := submit(jobYAML + "env: {A: 1, B: .inf}\n")
	for _, same := range []string{
		"env:\n  B: .inf   # not a number\n  A: 1\n" + jobYAML, `{"name":"train","gpus":2,"env":{"A":1,"B":.inf},"mem":"4GiB","command":'true'}`,
	} {
		if got := submit(same); got != first {
			t.Errorf("%s: got %+v, want %+v", same, got, first)
		}
	}
	for _, other := range []string{
		jobYAML + "env: {A: 2, B: .inf}\n", jobYAML + "env: {B: .inf}\n",
		strings.Replace(jobYAML, `"true"`, `["true"]`, 1) + "env: {A: 1, B: .inf}\n",
	} {
		if got := submit(other); got.Digest == first.Digest {
			t.Errorf("%s has the same digest", other)
		}
	}
	// The order of its axes determines the tasks of a matrix.
	if ab, ba := submit(jobYAML+"matrix: {a: [1, 2], b: [3, 4]}\n"), submit(jobYAML+"matrix: {b: [3, 4], a: [1, 2]}\n"); ab.Digest == ba.Digest {
		t.Error("the digest does not depend on the order of a matrix's axes")
	}
}

// TestJSONErrors checks that messages use the terms of the API, without Go types, suggest
// the intended key, and explain how to send a job file.
func TestJSONErrors(t *testing.T) {
	const hint = "; send a job file with Content-Type: application/yaml"
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/jobs", `{"name":"x","gpus":1}`, `parse body: unknown field "gpus"; did you mean "request.gpus"?` + hint},
		{"POST", "/v1/jobs", `{"name":"x","comand":["true"]}`, `parse body: unknown field "comand"; did you mean "command"?` + hint},
		{"POST", "/v1/jobs", `{"name":"x","request":{"gpuss":1}}`, `parse body: unknown field "gpuss"; did you mean "request.gpus"?` + hint},
		{"POST", "/v1/jobs", `{"name":"x","colour":1}`, `parse body: unknown field "colour"` + hint},
		{"POST", "/v1/jobs", `{"name":"x","command":"true"}`, "parse body: command needs a list, not text" + hint},
		{"POST", "/v1/jobs", `{"name":7}`, "parse body: name needs text, not a number" + hint},
		{"POST", "/v1/jobs", `{"request":{"gpus":1.5}}`, "parse body: request.gpus needs a whole number, not number 1.5" + hint},
		{"POST", "/v1/jobs", `{"request":{"gpus":"1"}}`, "parse body: request.gpus needs a whole number, not text" + hint},
		{"POST", "/v1/jobs", `{"cpus":[]}`, "parse body: cpus needs a number, not a list" + hint},
		{"POST", "/v1/jobs", `{"kill_grace":"5s"}`, "parse body: kill_grace needs a whole number of nanoseconds, not text" + hint},
		{"POST", "/v1/jobs", `{"gang":"yes"}`, "parse body: gang needs true or false, not text" + hint},
		{"POST", "/v1/jobs", `{"env":true}`, "parse body: env needs an object, not true or false" + hint},
		{"POST", "/v1/jobs", `["x"]`, "parse body: the body needs an object, not a list" + hint},
		{"POST", "/v1/jobs", "name: x\n", "parse body: this is not JSON, at byte 2: invalid character 'a' in literal null (expecting 'u')" + hint},
		{"POST", "/v1/jobs", `{}{}`, "parse body: more follows the first JSON value" + hint},
		{"POST", "/v1/schedules", `{"schedul":{}}`, `parse body: unknown field "schedul"; did you mean "schedule"?` + hint},
		{"PUT", "/v1/roles/x/quota", `{"qouta":null}`, `parse body: unknown field "qouta"; did you mean "quota"?`},
		{"POST", "/v1/jobs/x/scale", `{"tasks":"2"}`, "parse body: tasks needs a whole number, not text"},
	} {
		status, _, body := sendRequest(t, c.method, serveBackend(t, &fakeBackend{}).URL+c.path, c.body)
		if got := problemDetail(t, body); status != 400 || got != c.want {
			t.Errorf("%s %s: got %d\n\t%s, want 400\n\t%s", c.path, c.body, status, got, c.want)
		}
	}
}

// TestUnknownParameters checks that they are rejected below /v1, but not on open paths.
func TestUnknownParameters(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/v1/jobs?limt=1", 400, `GET /v1/jobs has no parameter "limt"; did you mean limit?`},
		{"GET", "/v1/jobs?limit=1&Limit=2", 400, `GET /v1/jobs has no parameter "Limit"; did you mean limit?`},
		{"GET", "/v1/jobs?page=2", 400, `GET /v1/jobs has no parameter "page"; it takes limit, after, state, role, owner, name, label, order`},
		{"GET", "/v1/jobs?limit=%zz", 400, `parse query: invalid URL escape "%zz"`},
		{"GET", "/v1/demand?agent=a", 400, `GET /v1/demand has no parameter "agent": it takes none`},
		{"DELETE", "/v1/jobs/train?forse=true", 400, `DELETE /v1/jobs/{reference} has no parameter "forse"; did you mean force?`},
		{"POST", "/v1/jobs?dry_run=true", 400, `POST /v1/jobs has no parameter "dry_run": it takes none`},
		{"GET", "/metrics?format=x", 200, ""},
		{"GET", "/healthz?t=1", 200, ""},
		{"GET", "/v1/job.schema.json?v=2", 200, ""},
	} {
		f := &fakeBackend{}
		status, _, body := sendRequest(t, c.method, serveBackend(t, f).URL+c.path, "")
		if status != c.status || status == 400 && problemDetail(t, body) != c.want {
			t.Errorf("%s %s: got %d %s, want %d %s", c.method, c.path, status, body, c.status, c.want)
		}
		if f.killed != "" {
			t.Errorf("%s %s killed %s", c.method, c.path, f.killed)
		}
	}
}

// TestServedJobSchema checks that the API serves the schema of package jobfile.
func TestServedJobSchema(t *testing.T) {
	want, err := jobfile.Schema()
	if err != nil {
		t.Fatal(err)
	}
	status, kind, got := sendRequest(t, "GET", serveBackend(t, &fakeBackend{}).URL+"/v1/job.schema.json", "")
	if status != 200 || kind != "application/schema+json" || got != string(want) {
		t.Errorf("got %d, %s, %d bytes, want %d", status, kind, len(got), len(want))
	}
}

// TestJobFile checks that a job is served as a job file that gives the same job, and that a validation returns the
// same file for it.
func TestJobFile(t *testing.T) {
	url := serveBackend(t, &fakeBackend{}).URL
	const mine = "name: train\ncommand: python train.py\n"
	status, kind, served := sendRequest(t, "GET", url+"/v1/jobs/train/file", "")
	if status != 200 || kind != "application/yaml" || !strings.HasPrefix(served, "name: train\n") {
		t.Errorf("got %d, %s, %q", status, kind, served)
	}
	var first, second api.ValidatedJob
	for _, path := range []string{"/v1/validate", "/v1/jobs/train/validate"} {
		for body, checked := range map[string]*api.ValidatedJob{mine: &first, "# the same\n" + mine: &second} {
			status, _, text := sendRequest(t, "POST", url+path, body, "Content-Type", "application/yaml")
			if err := json.Unmarshal([]byte(text), checked); status != 200 || err != nil {
				t.Fatalf("%s: %d %s %v", path, status, text, err)
			}
		}
		if first.File != second.File || !strings.Contains(first.File, "train.py") {
			t.Errorf("%s: the files of equal jobs are %q and %q", path, first.File, second.File)
		}
		if read, err := jobfile.Read(strings.NewReader(first.File), "job file"); err != nil || read.Name != "train" ||
			!slices.Equal(read.Command, first.Spec.Command) {
			t.Errorf("%s: the file is read as %+v, %v", path, read, err)
		}
	}
}

// TestDocumentedCurlCommands runs the curl commands of the documentation.
func TestDocumentedCurlCommands(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("needs curl")
	}
	doc, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	spec, err := jobfile.Read(strings.NewReader(jobYAML), "train.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wire, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"train.yaml": jobYAML, "train.json": string(wire)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	submissions := 0
	for line := range strings.Lines(string(doc)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "curl ")
		if !ok || !strings.Contains(command, "train.") {
			continue
		}
		submissions++
		f := &fakeBackend{}
		command = strings.Replace(command, "localhost:8080", serveBackend(t, f).URL, 1)
		c := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("%s -sS --fail-with-body --noproxy '*' %s", curl, command))
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", command, err, out)
		}
		f.submitted.ClientKey = nil
		if diff := cmp.Diff(*spec, f.submitted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", command, diff)
		}
	}
	if submissions < 2 {
		t.Errorf("found %d submissions, want a job file and a Spec", submissions)
	}
}

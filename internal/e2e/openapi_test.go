package e2e

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/workdir"
	"mesos-gpu/internal/testing/openapitest"
)

// apiChecker sends the requests of a running scheduler's OpenAPI document and validates the
// responses against it.
type apiChecker struct {
	*cluster
	doc       *openapitest.APIDocument
	requested map[string]bool // by method and path as in the document
}

func (c *cluster) newAPIChecker() *apiChecker {
	c.t.Helper()
	res, err := http.Get(c.api + "/v1/openapi.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return &apiChecker{c, openapitest.ReadDocument(c.t, text, c.api), map[string]bool{}}
}

// request sends one request, validates request and response, and requires the status want. It
// returns the body and the ETag.
func (d *apiChecker) request(want int, method, path, body string, header ...string) (answer, etag string) {
	d.t.Helper()
	request := func() *http.Request {
		ctx, cancel := context.WithTimeout(d.t.Context(), waitTimeout)
		d.t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, method, d.api+path, strings.NewReader(body))
		if err != nil {
			d.t.Fatal(err)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return r
	}
	exchange := d.doc.FindOperation(d.t, request())
	if err := exchange.CheckRequest(d.t.Context()); err != nil && want < http.StatusBadRequest {
		d.t.Errorf("%s %s: the request: %v", method, path, err)
	}
	res, err := http.DefaultClient.Do(request())
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	var text []byte
	if res.Header.Get("Content-Type") != "text/event-stream" { // a stream does not end and has no schema
		if text, err = io.ReadAll(res.Body); err != nil {
			d.t.Fatal(err)
		}
	}
	if res.StatusCode != want {
		d.t.Errorf("%s %s: status %d, want %d: %s", method, path, res.StatusCode, want, text)
	}
	if err := exchange.CheckAnswer(d.t.Context(), res.StatusCode, res.Header, text); err != nil {
		d.t.Errorf("%s %s: the answer %d: %v\n%s", method, path, res.StatusCode, err, text)
	}
	if want < http.StatusBadRequest {
		d.requested[method+" "+exchange.Path] = true
	}
	return string(text), res.Header.Get("ETag")
}

// awaitOK waits until GET of the path returns status 200.
func (c *cluster) awaitOK(path string) {
	c.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.After(waitTimeout)
	for {
		res, err := http.Get(c.api + path)
		if err != nil {
			c.t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			c.t.Fatalf("%s: status %d after %s", path, res.StatusCode, waitTimeout)
		}
	}
}

// TestResponsesMatchOpenAPI sends each request of the OpenAPI document, and some invalid ones,
// to a scheduler with jobs of every kind, and validates the responses.
func TestResponsesMatchOpenAPI(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--gpus", "3xV100", "--share", "1")
	c.awaitOK("/readyz") // the scheduler leads
	d := c.newAPIChecker()

	gang := `{"name":"gang","tasks":2,"gang":true,"request":{"gpus":1},"command":["sleep","600"],"cpus":0.1,"mem_mib":256}`
	d.request(http.StatusCreated, "POST", "/v1/jobs", gang, api.IdempotencyKey, "gang-1")
	d.request(http.StatusOK, "POST", "/v1/jobs", gang, api.IdempotencyKey, "gang-1")
	d.request(http.StatusConflict, "POST", "/v1/jobs", gang)
	d.request(http.StatusUnprocessableEntity, "POST", "/v1/jobs", `{"name":"x","command":["true"],"request":{"gpus":-1}}`)
	d.request(http.StatusOK, "POST", "/v1/validate", strings.Replace(gang, "gang", "other", 1))
	d.request(http.StatusUnprocessableEntity, "POST", "/v1/validate", `{"name":"x","command":["true"],"request":{"gpus":-1}}`)
	d.request(http.StatusCreated, "POST", "/v1/jobs",
		`{"name":"share","request":{"share":{"mem_mib":1024,"cores":10}},"command":["sleep","600"],"cpus":0.1,"mem_mib":256}`)
	const file = "name: file\ncommand: \"true\"\ncpus: 0.1\nmem: 256MiB\n"
	d.request(http.StatusCreated, "POST", "/v1/jobs", file, "Content-Type", "application/yaml", api.IdempotencyKey, "file-1")
	d.request(http.StatusOK, "POST", "/v1/jobs", "# again\n"+file, "Content-Type", "application/yaml", api.IdempotencyKey, "file-1")
	d.request(http.StatusUnprocessableEntity, "POST", "/v1/jobs", file+"gpuz: 1\n", "Content-Type", "application/yaml")
	d.request(http.StatusBadRequest, "GET", "/v1/jobs?limt=1", "")
	d.request(http.StatusCreated, "POST", "/v1/jobs", `{"name":"web","service":{},"command":["sleep","600"],"cpus":0.1,"mem_mib":256}`)
	d.request(http.StatusOK, "POST", "/v1/jobs/web/validate", `{"name":"web","service":{},"command":["sleep","601"],"cpus":0.1,"mem_mib":256}`)
	d.request(http.StatusUnprocessableEntity, "POST", "/v1/jobs/web/validate", `{"name":"other","service":{},"command":["true"]}`)
	d.request(http.StatusCreated, "POST", "/v1/jobs", `{"name":"big","request":{"gpus":3},"command":["true"],"cpus":0.1,"mem_mib":256}`)
	for _, name := range []string{"gang", "share", "web"} {
		c.awaitJob(name, func(v *api.JobView) bool { return v.Tasks[0].State == "RUNNING" })
	}

	for _, path := range []string{
		"/v1/jobs?limit=2&order=newest", "/v1/jobs?state=live", "/v1/jobs/gang", "/v1/jobs/big", "/v1/jobs/big/runs",
		"/v1/jobs/web/file", "/v1/gpus", "/v1/gpus?limit=1", "/v1/usage", "/v1/usage/history", "/v1/jobs/gang/usage",
		"/v1/whoami", "/v1/agents", "/v1/queue", "/v1/roles", "/v1/roles/*",
		"/v1/schedules", "/v1/events", "/v1/openapi.yaml", "/v1/job.schema.json", "/healthz", "/readyz", "/metrics", "/metrics/prometheus",
	} {
		d.request(http.StatusOK, "GET", path, "")
	}
	gangs := c.awaitJob("gang", func(v *api.JobView) bool { return v.Tasks[0].State == "RUNNING" })
	task := "/v1/tasks/" + gangs.Tasks[0].ID
	d.request(http.StatusOK, "GET", task+"/log?stream=stdout&follow=false", "")
	d.request(http.StatusOK, "GET", task+"/output?stream=stdout&tail=1", "")
	d.request(http.StatusNoContent, "PUT", task+"/file?path=copied", "text", "Content-Type", "application/octet-stream")
	d.request(http.StatusOK, "GET", task+"/file?path=copied", "")
	d.request(http.StatusNoContent, "PUT", task+"/files?path=unpacked", string(make([]byte, 1024)), "Content-Type", "application/x-tar")
	d.request(http.StatusOK, "GET", task+"/files", "")
	var agents api.AgentList
	text, _ := d.request(http.StatusOK, "GET", "/v1/agents", "")
	decodeJSON(t, text, &agents)
	agent := "/v1/agents/" + agents.Agents[0].ID
	d.request(http.StatusOK, "GET", agent, "")
	d.request(http.StatusAccepted, "POST", agent+"/cordon", `{"reason":"fan"}`)
	d.request(http.StatusAccepted, "POST", agent+"/drain", `{"reason":"fan"}`)
	d.request(http.StatusAccepted, "POST", agent+"/uncordon", `{}`)
	d.request(http.StatusOK, "PUT", "/v1/roles/*/quota", `{"quota":"V100=2"}`)
	d.request(http.StatusOK, "PUT", "/v1/roles/*/quota", `{"quota":null}`)
	d.request(http.StatusCreated, "POST", "/v1/schedules", `{"name":"nightly","command":["true"],"schedule":{"cron":"0 3 * * *"}}`)
	d.request(http.StatusOK, "GET", "/v1/schedules/nightly", "")
	d.request(http.StatusAccepted, "DELETE", "/v1/schedules/nightly", "")
	d.request(http.StatusOK, "PATCH", "/v1/jobs/big", `{"priority":3,"timeout":"2h","labels":{"team":"vision"}}`)
	d.request(http.StatusUnprocessableEntity, "PATCH", "/v1/jobs/big", `{"image":"x"}`)
	d.request(http.StatusAccepted, "PUT", "/v1/jobs/big/hold", `{"reason":"wrong data"}`)
	d.request(http.StatusAccepted, "DELETE", "/v1/jobs/big/hold", "")
	d.request(http.StatusAccepted, "POST", "/v1/jobs/big/requeue", `{}`)
	d.request(http.StatusAccepted, "PUT", "/v1/roles/*/hold", `{}`)
	d.request(http.StatusAccepted, "PUT", "/v1/users/carol/hold", `{"reason":"budget"}`)
	d.request(http.StatusOK, "GET", "/v1/holds", "")
	d.request(http.StatusOK, "GET", "/v1/notifications?state=failed", "")
	d.request(http.StatusAccepted, "DELETE", "/v1/roles/*/hold", "")
	d.request(http.StatusAccepted, "DELETE", "/v1/users/carol/hold", "")
	d.request(http.StatusAccepted, "POST", "/v1/jobs/web/scale", `{"tasks":2}`)
	view := c.awaitJob("web", func(v *api.JobView) bool { return len(v.Tasks) == 2 && v.Tasks[0].State == "RUNNING" })
	d.request(http.StatusAccepted, "POST", "/v1/tasks/"+view.Tasks[0].ID+"/stop", `{"retire":true}`)
	_, etag := d.request(http.StatusOK, "GET", "/v1/jobs/big", "")
	d.request(http.StatusPreconditionFailed, "DELETE", "/v1/jobs/big", "", "If-Match", `"0"`)
	d.request(http.StatusAccepted, "DELETE", "/v1/jobs/big", "", "If-Match", etag)
	d.request(http.StatusNotFound, "GET", "/v1/jobs/unknown", "")
	d.request(http.StatusOK, "GET", "/v1/jobs/big/history", "")
	c.awaitJob("big", func(v *api.JobView) bool { return v.Terminal })
	d.request(http.StatusOK, "GET", "/v1/accounting?by=user,type&since=2026-01-01T00:00:00Z", "")
	d.request(http.StatusBadRequest, "GET", "/v1/accounting?by=colour", "")
	d.request(http.StatusOK, "GET", "/v1/accounting/attempts?job=big&limit=1", "")
	d.request(http.StatusOK, "GET", "/v1/jobs/big/accounting?wait=0", "")
	d.request(http.StatusCreated, "POST", "/v1/jobs/big/rerun", `{}`)
	d.request(http.StatusOK, "PUT", "/v1/jobs/web", `{"name":"web","service":{},"command":["sleep","700"],"tasks":2,"cpus":0.1,"mem_mib":256}`)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "train.py"), []byte("print(1)"), 0o600); err != nil {
		t.Fatal(err)
	}
	packed, err := workdir.Pack(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	archive, err := io.ReadAll(packed.Reader())
	if err != nil {
		t.Fatal(err)
	}
	d.request(http.StatusCreated, "PUT", "/v1/workdirs/"+packed.Digest, string(archive), "Content-Type", "application/gzip")
	d.request(http.StatusOK, "GET", "/v1/workdirs/"+packed.Digest, "")
	c.awaitOK("/v1/demand") // there was enough time for offers
	d.request(http.StatusOK, "GET", "/v1/demand", "")

	for path, item := range d.doc.Paths.Map() {
		if slices.Contains([]string{"exec", "attach", "port-forward", "workdir.tar.gz", "artifacts", "sign-in"}, path[strings.LastIndexByte(path, '/')+1:]) {
			// WebSockets, for agents, with a store, or with an issuer: TestExecInRunningTasks, TestInteractiveRuns, TestNotebook,
			// TestTasksStartInWorkdir, TestArtifactsOfEndedTasks, and TestSignInAtIssuer of framework/web
			continue
		}
		if strings.HasPrefix(path, "/v1/notifications/") {
			continue // needs a notification: TestNotificationSurvivesAKill
		}
		for method := range item.Operations() {
			if !d.requested[method+" "+path] {
				t.Errorf("%s %s is documented and was not tested", method, path)
			}
		}
	}
}

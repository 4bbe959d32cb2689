package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files: commit them only if you understand each change")

// The answers in a fixed state of the service.
func TestAnswersMatchGoldenFiles(t *testing.T) {
	for _, c := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"app", "GET", "/v2/apps/web?embed=app.readiness&embed=app.taskStats", "", 200},
		{"apps", "GET", "/v2/apps?id=db", "", 200},
		{"created", "POST", "/v2/apps", `{"id": "/new", "cmd": "x", "gpus": 1}`, 201},
		{"updated", "PUT", "/v2/apps/web", `{"instances": 1}`, 200},
		{"versions", "GET", "/v2/apps/web/versions", "", 200},
		{"tasks", "GET", "/v2/apps/shop/db/tasks", "", 200},
		{"deployments", "GET", "/v2/deployments", "", 200},
		{"queue", "GET", "/v2/queue?embed=lastUnusedOffers", "", 200},
		{"groups", "GET", "/v2/groups/shop?embed=group.apps&embed=group.groups&embed=group.apps.counts", "", 200},
		{"group_versions", "GET", "/v2/groups/shop/versions", "", 200},
		{"dry_run", "PUT", "/v2/groups/shop?dryRun=true", `{"apps": [{"id": "db", "cmd": "store"}, {"id": "front", "cmd": "serve", "dependencies": ["db"]}]}`, 200},
		{"info", "GET", "/v2/info", "", 200},
		{"leader", "GET", "/v2/leader", "", 200},
		{"unknown", "GET", "/v2/apps/none", "", 404},
		{"locked", "PUT", "/v2/apps/stuck", `{"cmd": "three"}`, 409},
		{"invalid", "POST", "/v2/apps", `{"id": "/new", "cpus": -1, "gpu": 1}`, 422},
		{"malformed", "POST", "/v2/apps", `{"id": /new}`, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newEventServer(t)
			checkGolden(t, c.name+".json", indentJSON(t, a.send(c.method, c.path, c.body, c.status).Body.Bytes()))
		})
	}
}

// newEventServer returns a server whose state contains everything that answers can describe.
func newEventServer(t *testing.T) *testClient {
	a := newTestServer(t)
	a.readiness["/stuck"] = []ReadinessResult{{Name: "up", TaskID: "task.9.1.0", LastResponse: &ReadinessResponse{
		Status:      503,
		ContentType: "text/plain",
		Body:        "not yet",
	}}}
	a.readiness["/web"] = []ReadinessResult{{Name: "up", TaskID: "task.5.1.0", Ready: true}}
	n := 0
	a.changeInstances("/web", func(i deploy.AppInstance) (deploy.AppInstance, bool) {
		if n++; n == 2 {
			ill := false
			i.Healthy = &ill
		}
		return i, true
	})
	a.changeInstances("/shop/db", func(i deploy.AppInstance) (deploy.AppInstance, bool) {
		i.State, i.Changed, i.NotBefore = job.Waiting, time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC), time.Date(2026, 3, 1, 12, 5, 0, 0, time.UTC)
		return i, true
	})
	a.frozen = true
	if err := a.executeActions(); err != nil {
		t.Fatal(err)
	}
	// The queue is in the state that the deployments saw last, the tasks in their current state.
	a.changeInstances("/shop/db", func(i deploy.AppInstance) (deploy.AppInstance, bool) { i.State = job.Running; return i, true })
	return a
}

func indentJSON(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	out.WriteByte('\n')
	return out.Bytes()
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s: -want +got:\n%s", path, d)
	}
}

// The text of every type of event in a stream.
func TestEventTextMatchesGolden(t *testing.T) {
	plan := deploy.EventPlan{
		Plan:     deploy.Plan{ID: "d", Version: "v", Steps: []deploy.PlanStep{{Actions: []deploy.PlanAction{{Action: deploy.ScaleApplication, App: "/a"}}}}},
		Original: &marathon.Group{ID: "/", Apps: []*marathon.App{}, Version: "u"}, Target: &marathon.Group{ID: "/", Apps: []*marathon.App{{ID: "/a"}}, Version: "v"},
	}
	a := newTestClient(t)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/a", "cmd": "x"}`, http.StatusCreated)
	app := a.readApp("/a").App
	app.VersionInfo, app.Version = nil, ""
	ill := false
	var out bytes.Buffer
	for _, ev := range []deploy.BusEvent{
		APIPost{ClientIP: "192.0.2.1", URI: "/v2/apps", App: &app},
		StreamAttached{"192.0.2.1"},
		StreamDetached{"192.0.2.1"},
		deploy.DeploymentInfo{Plan: plan, Step: plan.Steps[0]},
		deploy.DeploymentStepSuccess{Plan: plan, Step: plan.Steps[0]},
		deploy.DeploymentSuccess{ID: "d", Plan: plan},
		deploy.DeploymentFailed{ID: "d", Plan: plan, Reason: "it was cancelled"},
		deploy.GroupChangeSuccess{GroupID: "/", Version: "v"},
		deploy.AppTerminated{AppID: "/a"},
		deploy.StatusUpdate{
			AgentID:     "S0",
			TaskID:      "t",
			TaskStatus:  "TASK_RUNNING",
			AppID:       "/a",
			Host:        "agent",
			Ports:       []int{31000},
			Version:     "v",
			IPAddresses: []deploy.IPAddress{{IPAddress: "10.0.0.1", Protocol: "IPv4"}},
		},
		deploy.InstanceChanged{InstanceID: "t", Condition: "Running", AppID: "/a", AgentID: "S0", Host: "agent", Version: "v"},
		deploy.UnknownInstanceTerminated{InstanceID: "t", AppID: "/a", Condition: "Killed"},
		deploy.InstanceHealthChanged{InstanceID: "t", Version: "v", AppID: "/a", Healthy: &ill},
	} {
		for _, one := range withLegacyForm(ev) {
			text, err := encodeFrame(one, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "%s", text)
		}
	}
	checkGolden(t, "events.txt", out.Bytes())
}

package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// typedClient sends requests over HTTP as typed clients of Marathon do: fields without a value are null or an empty list.
// It decodes answers into its own types.
type typedClient struct {
	*testClient
	url string
}

func (c *typedClient) send(method, path, body string, into any) int {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if into == nil {
		return answer.StatusCode
	}
	if err := json.Unmarshal(text, into); err != nil {
		c.t.Fatalf("%s %s: %d, %v in %s", method, path, answer.StatusCode, err, text)
	}
	return answer.StatusCode
}

// mustSend sends a request that has to succeed.
func (c *typedClient) mustSend(method, path, body string, into any) {
	c.t.Helper()
	if got := c.send(method, path, body, into); got/100 != 2 {
		c.t.Fatalf("%s %s %s: got status %d", method, path, body, got)
	}
}

// clientApp has the fields that a typed client reads.
type clientApp struct {
	ID              string
	Cmd             *string
	Instances       *int
	CPUs            float64
	GPUs            *float64
	BackoffSeconds  *float64
	Ports           []int
	Dependencies    []string
	Labels          *map[string]string
	Tasks           []struct{ ID, AppID, Host, SlaveID, StagedAt, StartedAt, State, Version string }
	TasksRunning    int
	Deployments     []map[string]string
	Version         string
	VersionInfo     *struct{ LastScalingAt, LastConfigChangeAt string }
	UpgradeStrategy *struct{ MinimumHealthCapacity, MaximumOverCapacity *float64 }
}

func (c *typedClient) readApp(id string) clientApp {
	c.t.Helper()
	var got struct{ App clientApp }
	c.mustSend("GET", "/v2/apps"+id, "", &got)
	return got.App
}

func TestClientOfApps(t *testing.T) {
	a := newTestClient(t)
	srv := httptest.NewServer(a.handler)
	defer srv.Close()
	c := &typedClient{a, srv.URL}

	var created clientApp
	c.mustSend("POST", "/v2/apps",
		`{"id": "/shop/web", "cmd": "serve", "cpus": 0.5, "gpus": 1, "instances": 2, "mem": 64, "ports": null, "dependencies": null}`,
		&created)
	if len(created.Deployments) != 1 || created.Deployments[0]["id"] == "" || *created.GPUs != 1 {
		t.Errorf("created: got deployments %v and %v GPUs, want one and 1", created.Deployments, *created.GPUs)
	}
	if got := c.readApp("/shop/web"); got.TasksRunning != 2 || len(got.Tasks) != *got.Instances || len(got.Deployments) != 0 {
		t.Errorf("waited for: got %d running, %d tasks, deployments %v, want 2, 2 and none", got.TasksRunning, len(got.Tasks), got.Deployments)
	}
	var d struct{ DeploymentID, Version string }
	c.mustSend("PUT", "/v2/apps/shop/web", `{"id": "/shop/web", "instances": 5, "ports": null, "dependencies": null}`, &d)
	if got := c.readApp("/shop/web"); got.TasksRunning != 5 || got.Version != d.Version || *got.Cmd != "serve" {
		t.Errorf("scaled: got %d running of %q in %s, want 5 of serve in %s", got.TasksRunning, *got.Cmd, got.Version, d.Version)
	}
	c.mustSend("PUT", "/v2/apps/shop/web?force=true", `{"id": "/shop/web", "cmd": "better", "ports": null, "dependencies": []}`, &d)

	var versions struct{ Versions []string }
	c.mustSend("GET", "/v2/apps/shop/web/versions", "", &versions)
	if len(versions.Versions) != 3 || versions.Versions[2] != created.Version {
		t.Fatalf("got versions %v, want three, the last %s", versions.Versions, created.Version)
	}
	c.mustSend("PUT", "/v2/apps/shop/web", `{"version": "`+created.Version+`"}`, &d)
	if got := c.readApp("/shop/web"); *got.Cmd != "serve" || got.TasksRunning != 2 {
		t.Errorf("set to the first version: got %d of %q, want 2 of serve", got.TasksRunning, *got.Cmd)
	}
	before := c.readApp("/shop/web").Tasks
	c.mustSend("POST", "/v2/apps/shop/web/restart", `{}`, &d)
	if after := c.readApp("/shop/web").Tasks; len(after) != 2 || slices.Contains(after, before[0]) {
		t.Errorf("restarted: got %v, want others than %v", after, before)
	}
	c.mustSend("DELETE", "/v2/apps/shop/web", "", &d)
	if got := c.send("GET", "/v2/apps/shop/web", "", nil); got != http.StatusNotFound {
		t.Errorf("deleted: got status %d, want 404", got)
	}
}

func TestClientRollsBack(t *testing.T) {
	a := newTestClient(t)
	srv := httptest.NewServer(a.handler)
	defer srv.Close()
	c := &typedClient{a, srv.URL}
	c.mustSend("POST", "/v2/apps", `{"id": "/web", "cmd": "one", "ports": null, "dependencies": null}`, nil)
	a.frozen = true
	c.mustSend("PUT", "/v2/apps/web", `{"id": "/web", "cmd": "two", "ports": null, "dependencies": null}`, nil)

	var conflict struct {
		Message     string
		Deployments []struct{ ID string }
	}
	if got := c.send("PUT", "/v2/apps/web", `{"cmd": "three", "ports": null}`, &conflict); got != http.StatusConflict || len(conflict.Deployments) != 1 {
		t.Fatalf("got status %d and %+v, want 409 and one deployment", got, conflict)
	}
	var under []struct {
		ID, Version             string
		CurrentStep, TotalSteps int
		AffectedApps            []string
		Steps                   []struct {
			Actions []struct{ Action, App string }
		}
		CurrentActions []struct {
			Action, App           string
			ReadinessCheckResults *[]struct{}
		}
	}
	c.mustSend("GET", "/v2/deployments", "", &under)
	if len(under) != 1 || under[0].ID != conflict.Deployments[0].ID || under[0].Steps[0].Actions[0].Action != "RestartApplication" ||
		under[0].CurrentActions[0].App != "/web" {
		t.Fatalf("got deployments %+v, want one that restarts /web", under)
	}
	a.frozen = false
	var d struct{ DeploymentID, Version string }
	c.mustSend("DELETE", "/v2/deployments/"+under[0].ID, "", &d)
	if got := c.readApp("/web"); *got.Cmd != "one" || got.TasksRunning != 1 || d.DeploymentID == "" {
		t.Errorf("rolled back by %q: got %d of %q, want 1 of one", d.DeploymentID, got.TasksRunning, *got.Cmd)
	}
}

func TestClientOfOtherEndpoints(t *testing.T) {
	a := newTestClient(t)
	srv := httptest.NewServer(a.handler)
	defer srv.Close()
	c := &typedClient{a, srv.URL}
	var d struct{ DeploymentID, Version string }

	c.mustSend("POST", "/v2/groups",
		`{"id": "/shop", "apps": [{"id": "/shop/web", "cmd": "x", "ports": null, "dependencies": null}], "dependencies": [], "groups": []}`,
		nil)
	c.mustSend("PUT", "/v2/groups/shop",
		`{"id": "/shop", "apps": [{"id": "/shop/web", "cmd": "y", "ports": null, "dependencies": []}], "dependencies": [], "groups": []}`,
		&d)
	var g struct {
		ID           string
		Apps         []clientApp
		Groups       []struct{ ID string }
		Dependencies []string
	}
	c.mustSend("GET", "/v2/groups/shop", "", &g)
	if len(g.Apps) != 1 || *g.Apps[0].Cmd != "y" || g.Dependencies == nil {
		t.Errorf("got %+v, want /shop/web with y", g)
	}
	var apps struct{ Apps []clientApp }
	c.mustSend("GET", "/v2/apps?embed=apps.tasks", "", &apps)
	if len(apps.Apps) != 1 || len(apps.Apps[0].Tasks) != 1 {
		t.Fatalf("got %+v, want one app with one task", apps)
	}
	task := apps.Apps[0].Tasks[0].ID
	var killed struct{ Task struct{ ID string } }
	c.mustSend("DELETE", "/v2/apps/shop/web/tasks/"+task, "", &killed)
	if killed.Task.ID != task {
		t.Errorf("killed %q, want %q", killed.Task.ID, task)
	}
	c.mustSend("DELETE", "/v2/groups/shop?force=true", "", &d)

	var queue struct{ Queue []struct{ Count int } }
	c.mustSend("GET", "/v2/queue", "", &queue)
	var info struct {
		FrameworkID, Leader, Name, Version string
		HTTPConfig                         struct{ Port float64 }    `json:"http_config"`
		MarathonConfig                     struct{ Checkpoint bool } `json:"marathon_config"`
	}
	c.mustSend("GET", "/v2/info", "", &info)
	var leader struct{ Leader string }
	c.mustSend("GET", "/v2/leader", "", &leader)
	if info.FrameworkID != "F-1" || leader.Leader != info.Leader {
		t.Errorf("got framework %q led by %q and %q, want F-1 and one leader", info.FrameworkID, info.Leader, leader.Leader)
	}
	var gone struct{ Message string }
	c.mustSend("DELETE", "/v2/leader", "", &gone)
	var pong string
	c.mustSend("GET", "/ping", "", &pong)
	if gone.Message != "Leadership abdicated" || pong != "pong" {
		t.Errorf("got %q and %q", gone.Message, pong)
	}
	if got := c.send("HEAD", "/v2/pods", "", nil); got != http.StatusNotFound {
		t.Errorf("pods: got status %d, want 404", got)
	}
}

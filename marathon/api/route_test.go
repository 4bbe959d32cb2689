package api

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mesos-gpu/marathon/deploy"
)

// newTestServer returns a server with an app of two instances, an app in a group, and an app whose deployment does
// not end.
func newTestServer(t *testing.T) *testClient {
	a := newTestClient(t)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/web", "cmd": "serve", "instances": 2, "healthChecks": [{"protocol": "TCP"}]}`, http.StatusCreated)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/shop/db", "cmd": "store"}`, http.StatusCreated)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/stuck", "cmd": "one"}`, http.StatusCreated)
	a.frozen = true
	a.send(http.MethodPut, "/v2/apps/stuck", `{"cmd": "two"}`, http.StatusOK)
	a.frozen = false
	return a
}

func (a *testClient) onlyDeploymentID() string {
	a.t.Helper()
	var all []objectID
	a.mustSend(http.MethodGet, "/v2/deployments", "", &all)
	if len(all) != 1 {
		a.t.Fatalf("got deployments %v, want one", all)
	}
	return all[0].ID
}

// Each route with each of its statuses. The message is part of the answer.
func TestRoutesAnswerEachStatus(t *testing.T) {
	const notThere = "App '/none' does not exist"
	const locked = "App is locked by one or more deployments"
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/ping", "", 200, "pong"},
		{"HEAD", "/ping", "", 200, ""},
		{"POST", "/ping", "", 405, "takes GET"},
		{"GET", "/ping/pong", "", 404, "nothing at /ping/pong"},
		{"GET", "/", "", 404, "nothing"},
		{"GET", "/metrics", "", 404, "nothing"},
		{"GET", "/v2", "", 404, "nothing"},
		{"GET", "/v2/eventSubscriptions", "", 404, "nothing"},

		{"GET", "/v2/apps", "", 200, `"id":"/web"`},
		{"GET", "/v2/apps/", "", 200, `"id":"/web"`},
		{"GET", "/v2/apps?label=a%20b", "", 422, "label selector"},
		{"POST", "/v2/apps", `{"id": "/new", "cmd": "x"}`, 201, `"id":"/new"`},
		{"POST", "/v2/apps", `{"id": "/web", "cmd": "x"}`, 409, "An app with id [/web] already exists."},
		{"POST", "/v2/apps", `{"id": "/web/under", "cmd": "x"}`, 422, "cannot be a group too"},
		{"POST", "/v2/apps", `{"id": "/new"}`, 422, `"details":[{"path":"/"`},
		{"POST", "/v2/apps", `{"id": "/new", "cmd": "x", "cpus": "many"}`, 422, `"message":"Invalid JSON"`},
		{"POST", "/v2/apps", `{"id": "/Big", "cmd": "x"}`, 422, `"path":"/id"`},
		{"POST", "/v2/apps", `{"id": `, 400, `"details":"`},
		{"POST", "/v2/apps", ``, 400, `"message":"Invalid JSON"`},
		{"POST", "/v2/apps?force=perhaps", `{"id": "/new", "cmd": "x"}`, 400, "true or false"},
		{"PUT", "/v2/apps", `[{"id": "/web", "instances": 1}, {"id": "/new", "cmd": "x"}]`, 200, "deploymentId"},
		{"PUT", "/v2/apps", `{"id": "/web"}`, 422, "an array"},
		{"PUT", "/v2/apps", `[{"id": "/web"`, 400, "Invalid JSON"},
		{"PUT", "/v2/apps", `[{"cmd": "x"}]`, 422, "(0)/id"},
		{"PUT", "/v2/apps", `[{"id": "/web"}, {"id": "web"}]`, 422, "/web is there twice"},
		{"PATCH", "/v2/apps", `[{"id": "/web", "instances": 1}]`, 200, "deploymentId"},
		{"PATCH", "/v2/apps", `[{"id": "/none", "cmd": "x"}]`, 404, notThere},
		{"DELETE", "/v2/apps", "", 405, "takes GET, PATCH, POST, PUT"},

		{"GET", "/v2/apps/web", "", 200, `{"app":{"id":"/web"`},
		{"HEAD", "/v2/apps/web", "", 200, ""},
		{"GET", "/v2/apps//web", "", 200, `{"app":{"id":"/web"`},
		{"GET", "/v2/apps/none", "", 404, notThere},
		{"GET", "/v2/apps/shop", "", 404, "App '/shop' does not exist"},
		{"GET", "/v2/apps/*", "", 200, `"id":"/shop/db"`},
		{"GET", "/v2/apps/shop/*", "", 200, `{"*":[{"id":"/shop/db"`},
		{"GET", "/v2/apps/none/*", "", 404, "Group '/none' does not exist"},
		{"DELETE", "/v2/apps/shop/*", "", 405, "takes GET"},
		{"PUT", "/v2/apps/web", `{"instances": 1}`, 200, "deploymentId"},
		{"PUT", "/v2/apps/new", `{"cmd": "x"}`, 201, "deploymentId"},
		{"PUT", "/v2/apps/new", `{"instances": 1}`, 422, "details"},
		{"PUT", "/v2/apps/new", `{"version": "2026-03-01T12:00:01.000Z"}`, 404, "App '/new' does not exist"},
		{"PUT", "/v2/apps/web", `{"args": ["x"]}`, 422, "details"},
		{"PUT", "/v2/apps/web", `{"instances": -1}`, 422, "/instances"},
		{"PUT", "/v2/apps/web", `[]`, 422, "Invalid JSON"},
		{"PUT", "/v2/apps/web", `{`, 400, "Invalid JSON"},
		{"PUT", "/v2/apps/web", `{"version": "2020-01-01T00:00:00.000Z"}`, 404, "App '/web' does not exist in version 2020"},
		{"PUT", "/v2/apps/web", `{"version": "2020-01-01T00:00:00.000Z", "cmd": "x"}`, 422, "it stands alone"},
		{"PUT", "/v2/apps/web", `{"version": 3}`, 422, "/version"},
		{"PUT", "/v2/apps/web?partialUpdate=false", `{"instances": 1}`, 422, "details"},
		{"PUT", "/v2/apps/stuck", `{"cmd": "three"}`, 409, locked},
		{"PUT", "/v2/apps/stuck?force=true", `{"cmd": "three"}`, 200, "deploymentId"},
		{"PATCH", "/v2/apps/web", `{"instances": 1}`, 200, "deploymentId"},
		{"PATCH", "/v2/apps/none", `{"cmd": "x"}`, 404, notThere},
		{"DELETE", "/v2/apps/web", "", 200, "deploymentId"},
		{"DELETE", "/v2/apps/none", "", 404, notThere},
		{"DELETE", "/v2/apps/stuck", "", 200, "deploymentId"}, // force is the default
		{"DELETE", "/v2/apps/stuck?force=false", "", 409, locked},
		{"POST", "/v2/apps/web", "{}", 405, "takes DELETE, GET, PATCH, PUT"},

		{"POST", "/v2/apps/web/restart", "", 200, "deploymentId"},
		{"POST", "/v2/apps/none/restart", "", 404, notThere},
		{"POST", "/v2/apps/stuck/restart", "", 409, locked},
		{"POST", "/v2/apps/stuck/restart?force=true", "", 200, "deploymentId"},
		{"GET", "/v2/apps/web/restart", "", 405, "takes POST"},
		{"GET", "/v2/apps/web/versions", "", 200, `{"versions":["2026-`},
		{"GET", "/v2/apps/none/versions", "", 404, notThere},
		{"GET", "/v2/apps/web/versions/x", "", 404, "App '/web' does not exist in version x"},
		{"GET", "/v2/apps/web/tasks", "", 200, `{"tasks":[{"id":"task.`},
		{"GET", "/v2/apps/none/tasks", "", 404, notThere},
		{"GET", "/v2/apps/shop/*/tasks", "", 200, `"appId":"/shop/db"`},
		{"GET", "/v2/apps/none/*/tasks", "", 404, "Group '/none' does not exist"},
		{"DELETE", "/v2/apps/*/tasks", "", 405, "takes GET"},
		{"DELETE", "/v2/apps/*/tasks/t", "", 404, "nothing"},
		{"DELETE", "/v2/apps/web/tasks", "", 200, `{"tasks":[{"id":"task.`},
		{"DELETE", "/v2/apps/web/tasks?host=nowhere", "", 200, `{"tasks":[]}`},
		{"DELETE", "/v2/apps/web/tasks?scale=true", "", 200, "deploymentId"},
		{"DELETE", "/v2/apps/web/tasks?scale=true&wipe=true", "", 400, "scale and wipe"},
		{"DELETE", "/v2/apps/none/tasks", "", 404, notThere},
		{"DELETE", "/v2/apps/stuck/tasks?scale=true", "", 409, locked},
		{"DELETE", "/v2/apps/web/tasks/none", "", 404, "Task 'none' does not exist"},
		{"DELETE", "/v2/apps/web/tasks/none?scale=true&wipe=true", "", 400, "scale and wipe"},
		{"DELETE", "/v2/apps/none/tasks/none", "", 404, notThere},

		{"GET", "/v2/deployments", "", 200, `"affectedApps":["/stuck"]`},
		{"DELETE", "/v2/deployments/none", "", 404, "DeploymentPlan none does not exist"},
		{"GET", "/v2/deployments/none", "", 405, "takes DELETE"},
		{"GET", "/v2/deployments/none/more", "", 404, "nothing"},

		{"GET", "/v2/tasks", "", 200, `"appId":"/web"`},
		{"POST", "/v2/tasks/delete", `{"ids": ["none.0.1.0"]}`, 200, `{"tasks":[]}`},
		{"POST", "/v2/tasks/delete?scale=true", `{"ids": ["none.0.1.0"]}`, 404, "none of the 1 tasks exists"},
		{"POST", "/v2/tasks/delete", `{"ids": ["none"]}`, 400, "Invalid task id 'none'"},
		{"POST", "/v2/tasks/delete", `{"ids": ["web.instance-0d3fd2a1._app.1"]}`, 400, "JOB.INDEX.ATTEMPT.TIME"},
		{"POST", "/v2/tasks/delete", `{}`, 422, "/ids"},
		{"POST", "/v2/tasks/delete", `{"ids": `, 400, "Invalid JSON"},
		{"POST", "/v2/tasks/delete?scale=true&wipe=true", `{"ids": []}`, 400, "scale and wipe"},
		{"POST", "/v2/tasks/delete", `{"ids": [5]}`, 422, "an array of strings"},
		{"GET", "/v2/tasks/delete", "", 405, "takes POST"},
		{"GET", "/v2/tasks/none", "", 404, "nothing"},

		{"GET", "/v2/queue", "", 200, `{"queue":[]}`},
		{"DELETE", "/v2/queue/web/delay", "", 404, "Application /web not found in tasks queue."},
		{"DELETE", "/v2/queue", "", 405, "takes GET"},
		{"GET", "/v2/queue/web", "", 404, "nothing"},

		{"GET", "/v2/groups", "", 200, `{"id":"/","apps":[`},
		{"GET", "/v2/groups/shop", "", 200, `{"id":"/shop","apps":[{"id":"/shop/db"`},
		{"GET", "/v2/groups/none", "", 404, "Group '/none' does not exist"},
		{"GET", "/v2/groups/apps", "", 200, `[{"id":"/shop/db"`},
		{"GET", "/v2/groups/shop/apps", "", 200, `[{"id":"/shop/db"`},
		{"GET", "/v2/groups/none/apps", "", 404, "Group '/none' does not exist"},
		{"GET", "/v2/groups/versions", "", 200, `["2026-`},
		{"GET", "/v2/groups/shop/versions", "", 200, `["2026-`},
		{"GET", "/v2/groups/none/versions", "", 404, "Group '/none' does not exist"},
		{"GET", "/v2/groups/shop/versions/2020-01-01T00:00:00.000Z", "", 404, "in version 2020"},
		{"GET", "/v2/groups/shop/versions/xx", "", 404, "in version xx"},
		{"GET", "/v2/groups/none/versions/v", "", 404, "Group '/none' does not exist"},
		{"POST", "/v2/groups", `{"id": "/new", "apps": [{"id": "a", "cmd": "x"}]}`, 201, "deploymentId"},
		{"POST", "/v2/groups/shop", `{"id": "new", "apps": [{"id": "a", "cmd": "x"}]}`, 201, "deploymentId"},
		{"POST", "/v2/groups", `{"id": "/shop"}`, 409, "Group /shop is already created. Use PUT to change this group."},
		{"POST", "/v2/groups", `{"id": "/web"}`, 409, "An app with the path /web already exists."},
		{"POST", "/v2/groups", `{"id": "/new", "pods": [{}]}`, 422, "/pods"},
		{"POST", "/v2/groups", `{"id"`, 400, "Invalid JSON"},
		{"PUT", "/v2/groups/shop", `{"apps": [{"id": "db", "cmd": "y"}]}`, 200, "deploymentId"},
		{"PUT", "/v2/groups", `{"id": "/shop", "apps": []}`, 200, "deploymentId"},
		{"PUT", "/v2/groups?dryRun=true", `{"id": "/new", "apps": [{"id": "a", "cmd": "x"}]}`, 200,
			`{"steps":[{"actions":[{"action":"StartApplication","app":"/new/a"}]}`},
		{"PUT", "/v2/groups/shop", `{"scaleBy": 2}`, 200, "deploymentId"},
		{"PUT", "/v2/groups/none", `{"scaleBy": 2}`, 404, "Group '/none' does not exist"},
		{"PUT", "/v2/groups/shop", `{"version": "2020-01-01T00:00:00.000Z"}`, 422, "Group /shop not available in version 2020"},
		{"PUT", "/v2/groups/shop", `{"version": "2026-01-01T00:00:00.000Z", "scaleBy": 2}`, 422, "one of them"},
		{"PUT", "/v2/groups", `{"scaleBy": 2}`, 409, locked},
		{"DELETE", "/v2/groups/shop", "", 200, "deploymentId"},
		{"DELETE", "/v2/groups/none", "", 404, "Group '/none' does not exist"},
		{"DELETE", "/v2/groups", "", 409, locked},
		{"DELETE", "/v2/groups?force=true", "", 200, "deploymentId"},
		{"PUT", "/v2/groups/shop", `{"enforceRole": true, "apps": [{"id": "db", "cmd": "y"}]}`, 422, `"path":"/enforceRole"`},
		{"PUT", "/v2/groups", `{"groups": [{"id": "shop", "enforceRole": true, "apps": []}]}`, 422, `"path":"/groups(0)/enforceRole"`},
		{"PUT", "/v2/groups/shop", `{"enforceRole": true}`, 200, "deploymentId"},
		{"PUT", "/v2/groups/shop", `{"enforceRole": false, "apps": [{"id": "db", "cmd": "y"}]}`, 200, "deploymentId"},
		{"PATCH", "/v2/groups/shop", `{"enforceRole": true}`, 405, "takes DELETE, GET, POST, PUT"},

		{"GET", "/v2/info", "", 200, `"name":"mesos-gpu"`},
		{"GET", "/v2/leader", "", 200, `{"leader":"scheduler.example:8080"}`},
		{"DELETE", "/v2/leader", "", 200, `{"message":"Leadership abdicated"}`},
		{"DELETE", "/v2/leader?backup=file:///x", "", 422, "backup is not served"},
		{"GET", "/v2/plugins", "", 200, `{"plugins":[]}`},
		{"GET", "/v2/pods", "", 404, `{"message":"pods are not supported`},
		{"HEAD", "/v2/pods", "", 404, ""},
		{"POST", "/v2/pods", "{}", 422, `"details":[{"path":"/","errors":["pods are not supported`},
		{"GET", "/v2/pods/a/b::status", "", 404, "pods are not supported"},
		{"POST", "/v2/events", "", 405, "takes GET"},
	} {
		name := c.method + " " + c.path + " " + c.body
		t.Run(name, func(t *testing.T) {
			a := newTestServer(t)
			w := a.send(c.method, c.path, c.body, c.status)
			if !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("got %s, want %s in it", w.Body, c.says)
			}
			if got := w.Header().Get("Content-Type"); c.path != "/ping" && c.method != "HEAD" && got != "application/json" {
				t.Errorf("Content-Type: got %q, want application/json", got)
			}
			if got, is := w.Header().Get("Marathon-Deployment-Id"), strings.Contains(c.says, "deploymentId"); is && !strings.Contains(w.Body.String(), got) ||
				got == "" && is {
				t.Errorf("Marathon-Deployment-Id: got %q with %s", got, w.Body)
			}
		})
	}
}

func TestLockedErrorNamesDeployments(t *testing.T) {
	a := newTestServer(t)
	id := a.onlyDeploymentID()
	w := a.send(http.MethodPut, "/v2/apps/stuck", `{"cmd": "three"}`, http.StatusConflict)
	if want := `"deployments":[{"id":"` + id + `"}]`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("got %s, want %s in it", w.Body, want)
	}
}

func TestCancelDeployment(t *testing.T) {
	a := newTestServer(t)
	var r deploymentResult
	a.mustSend(http.MethodDelete, "/v2/deployments/"+a.onlyDeploymentID(), "", &r)
	if got := a.readApp("/stuck"); got.Cmd != "one" || len(got.Deployments) != 0 {
		t.Errorf("rolled back: got %q with deployments %v, want one without", got.Cmd, got.Deployments)
	}
	a = newTestServer(t)
	w := a.send(http.MethodDelete, "/v2/deployments/"+a.onlyDeploymentID()+"?force=true", "", http.StatusAccepted)
	if got := a.readApp("/stuck"); got.Cmd != "two" || len(got.Deployments) != 0 || w.Body.Len() > 0 {
		t.Errorf("abandoned: got %q with deployments %v and the answer %q, want two without, and none", got.Cmd, got.Deployments, w.Body)
	}
}

func TestBodyIsBounded(t *testing.T) {
	a := newTestClient(t)
	w := a.send(http.MethodPost, "/v2/apps", `{"id": "/a", "cmd": "`+strings.Repeat("x", maxBody)+`"}`, http.StatusRequestEntityTooLarge)
	if !strings.Contains(w.Body.String(), "16777216") {
		t.Errorf("%s does not say how much is allowed", w.Body)
	}
}

func TestPingIsAnswered(t *testing.T) {
	a := newTestClient(t)
	for accept, want := range map[string][2]string{
		"":                            {"text/plain", "pong"},
		"*/*":                         {"text/plain", "pong"},
		"application/json":            {"application/json", `"pong"`},
		"text/html, application/json": {"text/plain", "pong"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/ping", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r)
		if got := [2]string{w.Header().Get("Content-Type"), w.Body.String()}; got != want {
			t.Errorf("%q: got %q, want %q", accept, got, want)
		}
	}
}

func TestLeaderCalls(t *testing.T) {
	a := newTestClient(t)
	a.leading = ""
	w := a.send(http.MethodGet, "/v2/leader", "", http.StatusNotFound)
	if _, is := w.Header()["X-Marathon-Leader"]; is || !strings.Contains(w.Body.String(), "There is no leader") {
		t.Errorf("got header %v and %s", w.Header(), w.Body)
	}
	a.abdicated = &ErrorResponse{Status: http.StatusForbidden, Message: "there is no other scheduler"}
	w = a.send(http.MethodDelete, "/v2/leader", "", http.StatusForbidden)
	if got, want := w.Body.String(), `{"message":"there is no other scheduler"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	a.abdicated = errors.New("the journal is gone")
	a.send(http.MethodDelete, "/v2/leader", "", http.StatusInternalServerError)
}

// Errors of the service determine the status, wrapped or not.
func TestErrorsDetermineStatus(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{&deploy.NotFoundError{Kind: "app", ID: "/a"}, 404},
		{errors.Join(errors.New("ask"), &deploy.NotFoundError{Kind: "app", ID: "/a"}), 404},
		{&deploy.LockedError{Deployments: []string{"d"}}, 409},
		{&ErrorResponse{Status: 503, Message: "no leader"}, 503},
		{errors.New("broken"), 500},
	} {
		if got := problemOf(c.err).Status; got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}

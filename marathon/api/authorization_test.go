package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

// roleAccess lists the roles whose apps a user may see and change, those that the user administers, and those whose fields are
// all readable.
type roleAccess struct{ sees, changes, administers, reads []string }

func (b *roleAccess) may(_ context.Context, p Permission, role string) error {
	list := map[Permission][]string{See: b.sees, ReadOutput: b.reads, Change: b.changes, Administer: b.administers}[p]
	if slices.Contains(list, role) || slices.Contains(list, allRoles) {
		return nil
	}
	return errors.New("not in role " + role)
}

// noJobRole knows no jobs.
func noJobRole(string) (string, bool) { return "", false }

// rolesService parses apps below /prod with the role prod.
type rolesService struct{ *fakeService }

func (f rolesService) ParseSettings(ctx context.Context, id string) (marathon.ParseSettings, error) {
	s, err := f.fakeService.ParseSettings(ctx, id)
	if strings.HasPrefix(id, "/prod/") {
		s.Role = "prod"
	}
	return s, err
}

// newAuthorizedServer returns a server with /web and /stuck in the role *, /prod/a in prod, and a deployment of
// /stuck that does not end. A user with all permissions has created them.
func newAuthorizedServer(t *testing.T) (a *testClient, b *roleAccess) {
	a, b = newTestClient(t), &roleAccess{}
	log := logrus.New()
	log.SetOutput(t.Output())
	a.send("POST", "/v2/groups", `{"id": "/prod", "enforceRole": true, "apps": [{"id": "a", "cmd": "x"}]}`, 201)
	a.send("POST", "/v2/apps", `{"id": "/web", "cmd": "x"}`, 201)
	a.send("POST", "/v2/apps", `{"id": "/stuck", "cmd": "one"}`, 201)
	a.frozen = true
	a.send("PUT", "/v2/apps/stuck", `{"cmd": "two"}`, 200)
	a.frozen = false
	a.handler = NewHandler(WithAuthorization(rolesService{a.fakeService}, b.may, noJobRole), a.bus, log)
	return a, b
}

// TestAuthorization makes each request as three users: one who may see and change prod, one who may only see it, and
// one who may see everything and change nothing. /web, /stuck and empty groups do not belong to prod.
func TestAuthorization(t *testing.T) {
	people := []roleAccess{{sees: []string{"prod"}, changes: []string{"prod"}}, {sees: []string{"prod"}}, {sees: []string{"/"}}}
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/v2/apps/prod/a", "", "200 200 200"},
		{"GET", "/v2/apps/web", "", "403 403 200"},
		{"GET", "/v2/apps/none", "", "404 404 404"},
		{"GET", "/v2/apps/prod/a/versions", "", "200 200 200"},
		{"GET", "/v2/apps/web/versions", "", "403 403 200"},
		{"GET", "/v2/apps/web/tasks", "", "403 403 200"},
		{"POST", "/v2/apps", `{"id": "/new", "cmd": "x"}`, "403 403 403"},
		{"POST", "/v2/apps", `{"id": "/prod/new", "ID": "/new", "cmd": "x", "role": "*"}`, "422 422 422"}, // /prod enforces its role
		{"POST", "/v2/apps", `{"id": "/prod/new", "id": "/new", "cmd": "x"}`, "403 403 403"},
		{"PUT", "/v2/apps/prod/a", `{"instances": 2}`, "200 403 403"},
		{"PUT", "/v2/apps/web", `{"instances": 2}`, "403 403 403"},
		{"PATCH", "/v2/apps", `[{"id": "/prod/a", "instances": 2}, {"id": "/web", "instances": 2}]`, "403 403 403"},
		{"POST", "/v2/apps/prod/a/restart", "", "200 403 403"},
		{"POST", "/v2/apps/web/restart", "", "403 403 403"},
		{"DELETE", "/v2/apps/prod/a", "", "200 403 403"},
		{"DELETE", "/v2/apps/web", "", "403 403 403"},
		{"DELETE", "/v2/apps/prod/a/tasks", "", "200 403 403"},
		{"DELETE", "/v2/apps/prod/a/tasks?scale=true", "", "200 403 403"},
		{"DELETE", "/v2/apps/web/tasks", "", "403 403 403"},
		{"GET", "/v2/groups/prod", "", "200 200 200"},
		{"POST", "/v2/groups", `{"id": "/empty"}`, "403 403 403"},
		{"PUT", "/v2/groups/prod", `{"scaleBy": 2}`, "200 403 403"},
		{"PUT", "/v2/groups/prod", `{"enforceRole": true, "apps": [{"id": "b", "cmd": "x"}]}`, "200 403 403"},
		{"PUT", "/v2/groups/prod", `{"apps": [{"id": "b", "cmd": "x"}]}`, "403 403 403"}, // with the role *
		{"PUT", "/v2/groups", `{"id": "/", "ID": "/prod/sub", "apps": [{"id": "/web", "cmd": "evil"}]}`, "403 403 403"},
		{"PUT", "/v2/groups", `{"id": "/prod/sub", "id": "/", "apps": [{"id": "/web", "cmd": "evil"}]}`, "403 403 403"},
		{"PUT", "/v2/groups", `{"ID": "/prod/sub", "apps": [{"id": "/web", "cmd": "evil"}]}`, "403 403 403"},
		{"PUT", "/v2/groups/prod", `{"version": "2020-01-01T00:00:00.000Z"}`, "403 403 403"},
		{"DELETE", "/v2/groups/prod", "", "200 403 403"},
		{"DELETE", "/v2/groups", "", "403 403 403"},
		{"DELETE", "/v2/queue/prod/a/delay", "", "404 403 403"},
		{"DELETE", "/v2/queue/web/delay", "", "403 403 403"},
		{"DELETE", "/v2/deployments/STUCK", "", "403 403 403"},
		{"DELETE", "/v2/leader", "", "403 403 403"},
		{"GET", "/v2/events", "", "403 403 200"},
		{"GET", "/v2/info", "", "200 200 200"},
		{"GET", "/ping", "", "200 200 200"},
	} {
		var got []string
		for _, p := range people {
			a, b := newAuthorizedServer(t)
			a.abdicated = nil
			*b = roleAccess{sees: []string{"/"}}
			path := strings.Replace(c.path, "STUCK", a.onlyDeploymentID(), 1)
			*b = p
			ctx, cancel := context.WithCancel(t.Context())
			if strings.HasSuffix(path, "/events") {
				cancel() // the stream ends after its start
			}
			w := httptest.NewRecorder()
			a.handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, c.method, path, strings.NewReader(c.body)))
			cancel()
			got = append(got, strings.TrimSpace(w.Result().Status[:3]))
			if w.Code == 403 && !strings.Contains(w.Body.String(), `"message":"not in role `) {
				t.Errorf("%s %s: %s", c.method, c.path, w.Body)
			}
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s %s %s: got %s, want %s", c.method, c.path, c.body, g, c.want)
		}
	}
}

// TestAuthorizationFiltersLists checks that lists leave out what the user may not see, and that the user cannot kill
// such tasks by id.
func TestAuthorizationFiltersLists(t *testing.T) {
	a, b := newAuthorizedServer(t)
	*b = roleAccess{sees: []string{"/"}}
	web := a.readApp("/web").Tasks[0].ID
	*b = roleAccess{sees: []string{"prod"}, changes: []string{"prod"}}
	for _, path := range []string{
		"/v2/apps", "/v2/groups", "/v2/tasks", "/v2/deployments", "/v2/queue",
		"/v2/groups/?embed=group.groups&embed=group.apps&embed=group.apps.tasks",
	} {
		w := a.send("GET", path, "", 200)
		if text := w.Body.String(); strings.Contains(text, "/web") || strings.Contains(text, "/stuck") {
			t.Errorf("%s: %s", path, text)
		}
	}
	if text := a.send("GET", "/v2/apps", "", 200).Body.String(); !strings.Contains(text, "/prod/a") {
		t.Error(text)
	}
	a.send("POST", "/v2/tasks/delete", `{"ids": ["`+web+`"]}`, 200)
	hidden := a.send("POST", "/v2/tasks/delete?scale=true", `{"ids": ["`+web+`"]}`, 404)
	if absent := a.send("POST", "/v2/tasks/delete?scale=true", `{"ids": ["none.0.1.0"]}`, 404); hidden.Body.String() != absent.Body.String() {
		t.Errorf("a hidden task is answered by %s, a task that does not exist by %s", hidden.Body, absent.Body)
	}
	*b = roleAccess{sees: []string{"/"}}
	if again := a.readApp("/web").Tasks[0].ID; again != web {
		t.Errorf("it was killed: %s is %s now", web, again)
	}
	a.send("POST", "/v2/tasks/delete", `{"ids": ["`+web+`"]}`, 403)
	g := WithAuthorization(a.fakeService, b.may, noJobRole)
	if err := g.KillTasks(t.Context(), []string{"unknown"}); err == nil {
		t.Error("a task of no app was killed")
	}
	if _, err := g.CancelDeployment(t.Context(), "none", false); !errors.As(err, new(*deploy.NotFoundError)) {
		t.Errorf("got %v", err)
	}
}

// TestAbdicationNeedsAdministrator checks that a user who may change all apps may not end the scheduler's leadership.
func TestAbdicationNeedsAdministrator(t *testing.T) {
	a, b := newAuthorizedServer(t)
	*b = roleAccess{sees: []string{"/"}, changes: []string{"/"}}
	a.send("DELETE", "/v2/leader", "", 403)
	*b = roleAccess{administers: []string{"/"}}
	a.send("DELETE", "/v2/leader", "", 200)
}

// movedRoleService has a deployment that moves an app from another role. A rollback would move it back.
type movedRoleService struct{ AppService }

func (m movedRoleService) RunExclusive(ctx context.Context, do func(AppService) error) error {
	return m.AppService.RunExclusive(ctx, func(s AppService) error { return do(movedRoleService{s}) })
}

func (movedRoleService) ListDeployments(context.Context) ([]deploy.Deployment, error) {
	return []deploy.Deployment{{Plan: deploy.Plan{ID: "move"}, From: map[string]string{"/prod/a": "2020-01-01T00:00:00.000Z"}}}, nil
}

func (movedRoleService) GetVersion(context.Context, string, string) (*marathon.App, error) {
	return &marathon.App{ID: "/prod/a", Role: "secret"}, nil
}

// TestCancelChecksRoleOfEarlierVersion checks that a user who may change an app, but not its earlier version, may not
// roll back its deployment.
func TestCancelChecksRoleOfEarlierVersion(t *testing.T) {
	a, b := newAuthorizedServer(t)
	*b = roleAccess{sees: []string{"prod"}, changes: []string{"prod"}}
	if _, err := WithAuthorization(movedRoleService{a.fakeService}, b.may, noJobRole).CancelDeployment(t.Context(), "move", false); err == nil ||
		!strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want an error about the role secret", err)
	}
}

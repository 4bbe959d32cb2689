package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"mesos-gpu/marathon"
	"mesos-gpu/marathon/deploy"
)

func TestCreateApp(t *testing.T) {
	a := newTestClient(t)
	w := a.send(http.MethodPost, "/v2/apps", `{"id": "shop/web", "cmd": "serve", "instances": 2}`, http.StatusCreated)
	for header, want := range map[string]string{
		"Location":          "/v2/apps/shop/web",
		"Content-Type":      "application/json",
		"X-Marathon-Leader": "http://scheduler.example:8080",
	} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("%s: got %q, want %q", header, got, want)
		}
	}
	id := w.Header().Get("Marathon-Deployment-Id")
	if id == "" || !strings.Contains(w.Body.String(), `"deployments":[{"id":"`+id+`"}]`) {
		t.Errorf("the deployment %q of the header is not in %s", id, w.Body)
	}
	app := a.readApp("/shop/web")
	if app.Running != 2 || len(app.Tasks) != 2 || app.Version == "" {
		t.Errorf("got %d running, %d tasks and version %q, want 2, 2 and some", app.Running, len(app.Tasks), app.Version)
	}
	if !strings.Contains(w.Body.String(), `"version":"`+app.Version+`"`) {
		t.Errorf("the version %s is not in %s", app.Version, w.Body)
	}
	a.send(http.MethodPost, "/v2/apps", `{"id": "/shop/web", "cmd": "serve"}`, http.StatusConflict)
}

// TestDroppedFieldsAreWarnings checks that fields which Marathon does not have change nothing but a header.
func TestDroppedFieldsAreWarnings(t *testing.T) {
	a := newTestClient(t)
	const want = `299 - "/owner: there is no such field"`
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/v2/apps", `{"id": "/a", "cmd": "x", "owner": "me"}`},
		{http.MethodPut, "/v2/apps/a", `{"cmd": "y", "owner": "me"}`},
		{http.MethodPut, "/v2/apps", `[{"id": "/a", "cmd": "z", "owner": "me"}]`},
	} {
		w := a.send(c.method, c.path, c.body, map[bool]int{true: http.StatusCreated, false: http.StatusOK}[c.method == http.MethodPost])
		if got := w.Header().Values("Warning"); !slices.Equal(got, []string{want}) || strings.Contains(w.Body.String(), "owner") {
			t.Errorf("%s: warnings %q, body %s", c.body, got, w.Body)
		}
	}
	if w := a.send(http.MethodPost, "/v2/groups", `{"id": "/g", "apps": [{"id": "a", "cmd": "x", "owner\n": 1}]}`,
		http.StatusCreated); w.Header().Get("Warning") != `299 - "/apps(0)/owner\n: there is no such field"` {
		t.Errorf("warning %q", w.Header().Get("Warning"))
	}
}

func TestUpdateApp(t *testing.T) {
	a := newTestClient(t)
	w := a.send(http.MethodPut, "/v2/apps/web", `{"cmd": "one"}`, http.StatusCreated)
	if got := w.Header().Get("Location"); got != "/v2/apps/web" {
		t.Errorf("Location: got %q, want /v2/apps/web", got)
	}
	first := a.readApp("/web").Version

	var r deploymentResult
	a.mustSend(http.MethodPut, "/v2/apps/web", `{"instances": 3}`, &r)
	if got := a.readApp("/web"); got.Running != 3 || got.Cmd != "one" || got.Version != r.Version || got.VersionInfo.LastConfigChangeAt != first {
		t.Errorf("scaled: got %d running of %q in version %s, %+v, want 3 of one in %s with the configuration of %s",
			got.Running, got.Cmd, got.Version, got.VersionInfo, r.Version, first)
	}
	a.mustSend(http.MethodPatch, "/v2/apps/web", `{"cmd": "two"}`, &r)
	if got := a.readApp("/web"); got.Running != 3 || got.Cmd != "two" || got.VersionInfo.LastConfigChangeAt != r.Version {
		t.Errorf("changed: got %d running of %q, %+v, want 3 of two and configuration %s", got.Running, got.Cmd, got.VersionInfo, r.Version)
	}
	a.mustSend(http.MethodPut, "/v2/apps/web?partialUpdate=false", `{"cmd": "three", "version": "`+first+`"}`, &r)
	if got := a.readApp("/web"); got.Running != 1 || got.Cmd != "three" {
		t.Errorf("replaced: got %d running of %q, want 1 of three", got.Running, got.Cmd)
	}
	a.mustSend(http.MethodPut, "/v2/apps/web", `{"version": "`+first+`"}`, &r)
	if got := a.readApp("/web"); got.Running != 1 || got.Cmd != "one" {
		t.Errorf("brought back: got %d running of %q, want 1 of one", got.Running, got.Cmd)
	}
}

func TestUpdateApps(t *testing.T) {
	a := newTestClient(t)
	var r deploymentResult
	a.mustSend(http.MethodPut, "/v2/apps", `[{"id": "/a", "cmd": "a"}, {"id": "/b", "cmd": "b", "instances": 2}]`, &r)
	a.mustSend(http.MethodPatch, "/v2/apps", `[{"id": "/a", "instances": 3}, {"id": "/b", "cmd": "c"}]`, &r)
	if got := a.readApp("/a"); got.Running != 3 || got.Cmd != "a" || got.Version != r.Version {
		t.Errorf("/a: got %d running of %q in %s, want 3 of a in %s", got.Running, got.Cmd, got.Version, r.Version)
	}
	if got := a.readApp("/b"); got.Running != 2 || got.Cmd != "c" {
		t.Errorf("/b: got %d running of %q, want 2 of c", got.Running, got.Cmd)
	}
	a.mustSend(http.MethodPut, "/v2/apps?partialUpdate=false", `[{"id": "/b", "cmd": "d"}]`, &r)
	if got := a.readApp("/b"); got.Running != 1 || got.Cmd != "d" {
		t.Errorf("/b replaced: got %d running of %q, want 1 of d", got.Running, got.Cmd)
	}
	// If one app is invalid or does not exist, no app changes.
	a.send(http.MethodPatch, "/v2/apps", `[{"id": "/a", "cmd": "x"}, {"id": "/none", "cmd": "x"}]`, http.StatusNotFound)
	if got := a.readApp("/a"); got.Cmd != "a" {
		t.Errorf("/a after a refusal: got %q, want a", got.Cmd)
	}
	w := a.send(http.MethodPut, "/v2/apps", `[{"id": "/a"}, {"id": "/b", "cpus": -1}]`, http.StatusUnprocessableEntity)
	if !strings.Contains(w.Body.String(), `"(1)/cpus"`) {
		t.Errorf("%s does not name (1)/cpus", w.Body)
	}
}

func TestListApps(t *testing.T) {
	a := newTestClient(t)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/shop/web", "cmd": "Serve it", "labels": {"tier": "front"}}`, http.StatusCreated)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/shop/db", "cmd": "store it"}`, http.StatusCreated)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/batch", "args": ["x"], "container": {"docker": {"image": "i"}}}`, http.StatusCreated)
	for query, want := range map[string]string{
		"":                       "/batch /shop/db /shop/web",
		"?cmd=serve":             "/shop/web",
		"?cmd=IT":                "/shop/db /shop/web",
		"?id=SHOP":               "/shop/db /shop/web",
		"?id=shop&cmd=store":     "/shop/db",
		"?label=tier%3D%3Dfront": "/shop/web",
		"?label=tier&id=db":      "",
	} {
		var got struct{ Apps []struct{ ID string } }
		a.mustSend(http.MethodGet, "/v2/apps"+query, "", &got)
		var ids []string
		for _, one := range got.Apps {
			ids = append(ids, one.ID)
		}
		if ids := strings.Join(ids, " "); ids != want || got.Apps == nil {
			t.Errorf("%s: got %q, want %q", query, ids, want)
		}
	}
	var got map[string][]struct{ marathon.App }
	a.mustSend(http.MethodGet, "/v2/apps/shop/*", "", &got)
	if len(got["*"]) != 2 || got["*"][0].ID != "/shop/db" {
		t.Errorf("/shop/*: got %v, want /shop/db and /shop/web", got)
	}
}

// The parts that an answer embeds in addition to the definition.
func TestEmbedInApps(t *testing.T) {
	a := newTestClient(t)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/web", "cmd": "serve"}`, http.StatusCreated)
	always := []string{"tasksStaged", "tasksRunning", "tasksHealthy", "tasksUnhealthy", "deployments"}
	for query, more := range map[string][]string{
		"":                                {},
		"?embed=apps.tasks":               {"tasks"},
		"?embed=app.tasks":                {"tasks"},
		"?embed=tasks&embed=readiness":    {"tasks", "readinessCheckResults"},
		"?embed=apps.failures":            {"tasks"},
		"?embed=apps.lastTaskFailure":     {},
		"?embed=apps.taskStats":           {"tasksStats"},
		"?embed=apps.counts&embed=apps.x": {},
	} {
		var got struct{ Apps []map[string]any }
		a.mustSend(http.MethodGet, "/v2/apps"+query, "", &got)
		for _, field := range []string{
			"tasks", "readinessCheckResults", "tasksStats", "tasksStaged", "tasksRunning", "tasksHealthy",
			"tasksUnhealthy", "deployments",
		} {
			_, is := got.Apps[0][field]
			if want := slices.Contains(always, field) || slices.Contains(more, field); is != want {
				t.Errorf("%q: %s is there: got %t, want %t", query, field, is, want)
			}
		}
	}
}

func TestVersionsOfApp(t *testing.T) {
	a := newTestClient(t)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/web", "cmd": "one"}`, http.StatusCreated)
	a.send(http.MethodPut, "/v2/apps/web", `{"cmd": "two"}`, http.StatusOK)
	var got struct{ Versions []string }
	a.mustSend(http.MethodGet, "/v2/apps/web/versions", "", &got)
	if len(got.Versions) != 2 || got.Versions[0] <= got.Versions[1] {
		t.Fatalf("got versions %v, want 2, the newest first", got.Versions)
	}
	for i, cmd := range []string{"two", "one"} {
		var app marathon.App
		a.mustSend(http.MethodGet, "/v2/apps/web/versions/"+got.Versions[i], "", &app)
		if app.Cmd != cmd || app.Version != got.Versions[i] {
			t.Errorf("version %s: got %q of %s, want %q", got.Versions[i], app.Cmd, app.Version, cmd)
		}
	}
}

func TestRestartAndDelete(t *testing.T) {
	a := newTestClient(t)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/g/web", "cmd": "one", "instances": 2}`, http.StatusCreated)
	before := a.readApp("/g/web")
	var r deploymentResult
	a.mustSend(http.MethodPost, "/v2/apps/g/web/restart", "", &r)
	after := a.readApp("/g/web")
	if len(after.Tasks) != 2 || slices.Contains(after.Tasks, before.Tasks[0]) || after.Version != r.Version {
		t.Errorf("restarted: got %v in %s, want two tasks other than %v, in %s", after.Tasks, after.Version, before.Tasks, r.Version)
	}
	a.mustSend(http.MethodDelete, "/v2/apps/g/web", "", &r)
	a.send(http.MethodGet, "/v2/apps/g/web", "", http.StatusNotFound)
}

// forgetfulService fails to return apps after it has accepted a change.
type forgetfulService struct {
	*fakeService
	changed bool
}

func (f *forgetfulService) UpdateApps(ctx context.Context, edit EditFunc, force bool) (deploy.Deployment, []*marathon.App, error) {
	f.changed = true
	return f.fakeService.UpdateApps(ctx, edit, force)
}

func (f *forgetfulService) GetApp(ctx context.Context, id string) (AppStatus, error) {
	if f.changed {
		return AppStatus{}, errors.New("the lead was lost")
	}
	return f.fakeService.GetApp(ctx, id)
}

// TestAnswerDescribesAcceptedChange checks that a recorded change succeeds even if the app cannot be read afterwards,
// and that its event contains the app as recorded.
func TestAnswerDescribesAcceptedChange(t *testing.T) {
	a := newTestClient(t)
	s := &forgetfulService{fakeService: a.fakeService}
	a.handler = NewHandler(s, a.bus, logrus.New())
	next, _ := openEventStream(t, a, "?event_type=api_post_event")
	var version string
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{http.MethodPost, "/v2/apps", `{"id": "/a", "cmd": "x"}`, http.StatusCreated},
		{http.MethodPut, "/v2/apps/a?force=true", `{"instances": 4}`, http.StatusOK},
		{http.MethodPut, "/v2/apps/b", `{"cmd": "x"}`, http.StatusCreated},
	} {
		a.send(c.method, c.path, c.body, c.status)
		_, ev := next()
		app := ev["appDefinition"].(map[string]any)
		if app["version"] == "" || app["version"] == version || app["versionInfo"] == nil {
			t.Errorf("%s %s is answered as %v", c.method, c.path, app)
		}
		version, _ = app["version"].(string)
	}
}

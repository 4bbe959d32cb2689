package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestGroupCalls(t *testing.T) {
	a := newTestClient(t)
	w := a.send(http.MethodPost, "/v2/groups",
		`{"id": "/shop", "apps": [{"id": "web", "cmd": "serve", "dependencies": ["back/db"]}], "groups": [{"id": "back", "apps": [{"id": "db", "cmd": "store"}]}]}`,
		http.StatusCreated)
	if got := w.Header().Get("Location"); got != "/v2/groups/shop" {
		t.Errorf("Location: got %q, want /v2/groups/shop", got)
	}
	if web, db := a.readApp("/shop/web"), a.readApp("/shop/back/db"); web.Running != 1 || db.Running != 1 || web.Version != db.Version {
		t.Errorf("got %d and %d running in %s and %s, want one each in the same version", web.Running, db.Running, web.Version, db.Version)
	}
	first := a.readApp("/shop/web").Version

	var r deploymentResult
	a.mustSend(http.MethodPut, "/v2/groups/shop", `{"scaleBy": 3}`, &r)
	if web, db := a.readApp("/shop/web"), a.readApp("/shop/back/db"); web.Running != 3 || db.Running != 3 {
		t.Errorf("scaled: got %d and %d running, want 3 and 3", web.Running, db.Running)
	}
	a.mustSend(http.MethodPut, "/v2/groups/shop/back", `{"apps": [{"id": "cache", "cmd": "keep"}]}`, &r)
	if w := a.send(http.MethodGet, "/v2/apps/shop/back/db", "", http.StatusNotFound); w == nil || a.readApp("/shop/back/cache").Running != 1 {
		t.Errorf("the app that the group has not any more is still there, or the new one is not")
	}
	var versions []string
	a.mustSend(http.MethodGet, "/v2/groups/shop/versions", "", &versions)
	if !slices.Contains(versions, first) || !slices.IsSortedFunc(versions, func(x, y string) int { return strings.Compare(y, x) }) {
		t.Errorf("got versions %v, want %s among them, the newest first", versions, first)
	}
	var old groupRead
	a.mustSend(http.MethodGet, "/v2/groups/shop/versions/"+first, "", &old)
	if old.Version != first || len(old.Apps) != 1 || old.Apps[0].Instances != 1 {
		t.Errorf("the first version is %+v, want one app with one instance", old)
	}
	elsewhere := strings.Replace(first, "Z", "%2B00:00", 1) // the same time in another notation
	a.send(http.MethodGet, "/v2/groups/shop/versions/"+elsewhere, "", http.StatusOK)
	a.send(http.MethodGet, "/v2/apps/shop/web/versions/"+elsewhere, "", http.StatusOK)
	a.mustSend(http.MethodPut, "/v2/groups/shop", `{"version": "`+first+`"}`, &r)
	if web := a.readApp("/shop/web"); web.Running != 1 {
		t.Errorf("brought back: got %d running, want 1", web.Running)
	}
	a.mustSend(http.MethodDelete, "/v2/groups/shop", "", &r)
	a.send(http.MethodGet, "/v2/groups/shop", "", http.StatusNotFound)
}

type groupRead struct {
	ID, Version string
	Apps        []struct {
		ID        string
		Instances int
		Running   *int `json:"tasksRunning"`
		Tasks     *[]struct{}
	}
	Pods   *[]struct{}
	Groups []groupRead
}

func TestGroupEmbed(t *testing.T) {
	a := newTestServer(t)
	for query, want := range map[string]struct{ apps, groups, pods, counts, tasks bool }{
		"":                        {apps: true, groups: true, pods: true},
		"?embed=group.groups":     {groups: true},
		"?embed=group.apps":       {apps: true},
		"?embed=group.apps.tasks": {},
		"?embed=group.apps&embed=group.apps.tasks":  {apps: true, tasks: true},
		"?embed=group.apps&embed=group.apps.counts": {apps: true, counts: true},
		"?embed=group.pods":                         {pods: true},
	} {
		var got groupRead
		a.mustSend(http.MethodGet, "/v2/groups"+query, "", &got)
		is := struct{ apps, groups, pods, counts, tasks bool }{apps: got.Apps != nil, groups: got.Groups != nil, pods: got.Pods != nil}
		for _, app := range got.Apps {
			is.counts, is.tasks = app.Running != nil, app.Tasks != nil
		}
		if is != want {
			t.Errorf("%q: got %+v, want %+v", query, is, want)
		}
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	a := newTestServer(t)
	a.send(http.MethodPut, "/v2/groups/shop?dryRun=true", `{"apps": []}`, http.StatusOK)
	if got := a.readApp("/shop/db").Running; got != 1 {
		t.Errorf("got %d running, want 1", got)
	}
}

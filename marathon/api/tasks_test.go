package api

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/job"
	"mesos-gpu/marathon/deploy"
)

// taskIDs returns the ids of the tasks in an answer.
func (a *testClient) taskIDs(method, path, body string) []string {
	a.t.Helper()
	var got struct{ Tasks []struct{ ID string } }
	a.mustSend(method, path, body, &got)
	var ids []string
	for _, one := range got.Tasks {
		ids = append(ids, one.ID)
	}
	return ids
}

func TestListTasks(t *testing.T) {
	a := newTestServer(t)
	web := a.taskIDs(http.MethodGet, "/v2/apps/web/tasks", "")
	if len(web) != 2 {
		t.Fatalf("/web has tasks %v, want 2", web)
	}
	a.changeInstances("/shop/db", func(i deploy.AppInstance) (deploy.AppInstance, bool) { i.State = job.Staging; return i, true })
	staging := a.taskIDs(http.MethodGet, "/v2/apps/shop/*/tasks", "")
	for query, want := range map[string]int{"": 4, "?status=running": 3, "?status=STAGING": 1, "?status[]=running&status[]=staging": 4, "?status=odd": 4} {
		if got := a.taskIDs(http.MethodGet, "/v2/tasks"+query, ""); len(got) != want || query == "?status=STAGING" && !slices.Equal(got, staging) {
			t.Errorf("%s: got %v, want %d", query, got, want)
		}
	}
}

func TestKillTasks(t *testing.T) {
	a := newTestServer(t)
	web := a.taskIDs(http.MethodGet, "/v2/apps/web/tasks", "")

	var one struct{ Task struct{ ID string } }
	a.mustSend(http.MethodDelete, "/v2/apps/web/tasks/"+web[0], "", &one)
	if one.Task.ID != web[0] {
		t.Errorf("killed %q, want %q", one.Task.ID, web[0])
	}
	if got := a.taskIDs(http.MethodGet, "/v2/apps/web/tasks", ""); len(got) != 2 || slices.Contains(got, web[0]) {
		t.Errorf("after a kill: got %v, want two without %s", got, web[0])
	}
	a.send(http.MethodDelete, "/v2/apps/shop/db/tasks/"+web[1], "", http.StatusNotFound) // another app's task

	// With scale the app has fewer instances afterwards.
	var r deploymentResult
	a.mustSend(http.MethodDelete, "/v2/apps/web/tasks/"+web[1]+"?scale=true", "", &r)
	if got := a.readApp("/web"); got.Instances != 1 || len(got.Tasks) != 1 || got.Version != r.Version {
		t.Errorf("after kill and scale: got %d instances, tasks %v in %s, want one of each in %s", got.Instances, got.Tasks, got.Version, r.Version)
	}
}

func TestKillByHost(t *testing.T) {
	a := newTestServer(t)
	var got struct{ Tasks []AppTask }
	a.mustSend(http.MethodGet, "/v2/apps/web/tasks", "", &got)
	var here []string
	for _, one := range got.Tasks {
		if one.Host == got.Tasks[0].Host {
			here = append(here, one.ID)
		}
	}
	if killed := a.taskIDs(http.MethodDelete, "/v2/apps/web/tasks?host="+got.Tasks[0].Host, ""); !slices.Equal(killed, here) {
		t.Errorf("killed %v, want those of %s, %v", killed, got.Tasks[0].Host, here)
	}
	if killed := a.taskIDs(http.MethodDelete, "/v2/apps/web/tasks?host=*", ""); len(killed) != 2 {
		t.Errorf("killed %v, want all two", killed)
	}
}

func TestKillAcrossApps(t *testing.T) {
	a := newTestServer(t)
	all := []string{a.taskIDs(http.MethodGet, "/v2/apps/web/tasks", "")[0], a.taskIDs(http.MethodGet, "/v2/apps/shop/db/tasks", "")[0]}
	body := `{"ids": ["` + strings.Join(all, `", "`) + `", "none.0.1.0"]}`
	killed := a.taskIDs(http.MethodPost, "/v2/tasks/delete", body)
	slices.Sort(killed)
	if want := slices.Sorted(slices.Values(all)); !slices.Equal(killed, want) {
		t.Errorf("killed %v, want %v", killed, want)
	}
	all = []string{a.taskIDs(http.MethodGet, "/v2/apps/web/tasks", "")[0], a.taskIDs(http.MethodGet, "/v2/apps/shop/db/tasks", "")[0]}
	var r deploymentResult
	a.mustSend(http.MethodPost, "/v2/tasks/delete?scale=true", `{"ids": ["`+strings.Join(all, `", "`)+`"]}`, &r)
	if web, db := a.readApp("/web").Instances, a.readApp("/shop/db").Instances; web != 1 || db != 0 {
		t.Errorf("got %d and %d instances, want 1 and 0", web, db)
	}
}

func TestEndpoints(t *testing.T) {
	a := newTestClient(t)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/shop/web", "cmd": "serve", "instances": 2, "ports": [8080, 0]}`, http.StatusCreated)
	a.send(http.MethodPost, "/v2/apps", `{"id": "/quiet", "cmd": "x", "portDefinitions": []}`, http.StatusCreated)
	tasks := a.tasks["/shop/web"]
	tasks[0].Hostname, tasks[0].Ports = "one", []int{31001, 31002}
	tasks[1].Hostname, tasks[1].Ports = "two", []int{31003}
	a.tasks["/quiet"][0].Hostname = "three"
	shop := "shop_web\t8080\tone:31001\ttwo:31003\t\nshop_web\t10000\tone:31002\t\n"
	for path, want := range map[string]string{"/v2/tasks": "quiet\t \tthree\t\n" + shop, "/v2/apps/shop/web/tasks": shop} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", "text/plain")
		w := httptest.NewRecorder()
		a.handler.ServeHTTP(w, r)
		if got := w.Body.String(); got != want || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%s: got %s %q, want %q", path, w.Header().Get("Content-Type"), got, want)
		}
	}
}

func TestServicePorts(t *testing.T) {
	for text, want := range map[string][]int{
		`{"cmd": "a", "portDefinitions": []}`: {},
		`{"cmd": "a", "ports": [80, 0]}`:      {80, 0},
		`{"container": {"docker": {"image": "i"}, "portMappings": [{"containerPort": 80, "servicePort": 10001}, {"containerPort": 81}]}, "networks": [{"mode": "container/bridge"}]}`: {10001,
			0},
	} {
		if got := servicePorts(parseApp(t, text)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}

package apiserver

import (
	"net/http"
	"strings"
	"testing"

	"mesos-gpu/framework/access"
	"mesos-gpu/internal/verbs"
)

// changesWithoutVerb are the requests that change something and are no verbs: files of tasks and
// working folders, and requests that change nothing.
var changesWithoutVerb = map[string]bool{
	"POST " + signInPath: true, "POST /v1/validate": true, "PUT /v1/workdirs/{digest}": true,
	"PUT /v1/tasks/{id}/files": true, "PUT /v1/tasks/{id}/file": true,
}

// TestVerbsAreRoutes checks that each verb is a route with the verb's permission, and that each
// route which changes something is a verb.
func TestVerbsAreRoutes(t *testing.T) {
	listed := map[string]bool{}
	for _, v := range verbs.List() {
		listed[v.Request] = true
		one := findRoute(v.Request)
		if one == nil {
			t.Errorf("%s: there is no request %s", v.Name, v.Request)
			continue
		}
		want := v.Permission
		if v.Name == "rerun a job" {
			want = access.Submit // the leader also requires that the user may change the earlier run
		}
		if one.permission != want {
			t.Errorf("%s: %s needs the permission %s, want %s", v.Name, v.Request, one.permission, want)
		}
	}
	for _, one := range routes() {
		method, _, _ := strings.Cut(one.request, " ")
		if method != http.MethodGet && method != http.MethodHead && listed[one.request] == changesWithoutVerb[one.request] {
			t.Errorf("%s is a verb: %t, and an exception: %t", one.request, listed[one.request], changesWithoutVerb[one.request])
		}
	}
}

package apiserver

import (
	"testing"

	"mesos-gpu/internal/testing/verbs"
)

// requestsWithoutVerb are the requests that are no verb of their own, with the reason.
var requestsWithoutVerb = map[string]string{
	"GET /healthz":                        "monitoring",
	"GET /readyz":                         "monitoring",
	"GET /metrics":                        "monitoring",
	"GET /metrics/prometheus":             "monitoring",
	"GET /v1/demand":                      "autoscalers of machines",
	"GET /v1/openapi.yaml":                "description of the API",
	"GET /v1/job.schema.json":             "description of the API",
	"GET /v1/whoami":                      "part of ps --me and of the page's sign-in",
	"POST " + signInPath:                  "part of the page's sign-in",
	"POST /v1/validate":                   "part of submit",
	"POST /v1/jobs/{reference}/validate":  "part of apply",
	"GET /v1/jobs/{reference}/file":       "part of apply on the page; get writes the same file",
	"GET /v1/workdirs/{digest}":           "part of submit",
	"PUT /v1/workdirs/{digest}":           "part of submit",
	"GET " + WorkdirPattern:               "of agents",
	"HEAD " + WorkdirPattern:              "of agents",
	"GET /v1/tasks/{id}/log":              "one stream of the output that logs reads",
	"GET /v1/jobs/{reference}/accounting": "part of describe and run",
	"GET /v1/jobs/{reference}/usage":      "chart of the page's view of a job",
	"GET /v1/usage/history":               "chart of the page's overview",
	"GET /v1/roles/{role}":                "an entry of the list of roles",
	"GET /v1/agents/{id}":                 "an entry of the list of agents",
}

// TestVerbsAreRoutes checks that each verb is a route with the verb's permission, and that each
// route is of a verb or one of requestsWithoutVerb.
func TestVerbsAreRoutes(t *testing.T) {
	listed := map[string]bool{}
	for _, v := range verbs.List() {
		listed[v.Request] = true
		one := findRoute(v.Request)
		if one == nil {
			t.Errorf("%s: there is no request %s", v.Name, v.Request)
			continue
		}
		if one.permission != v.Permission {
			t.Errorf("%s: %s needs the permission %s, want %s", v.Name, v.Request, one.permission, v.Permission)
		}
	}
	for _, one := range routes() {
		if exception := requestsWithoutVerb[one.request]; listed[one.request] == (exception != "") {
			t.Errorf("%s is of a verb: %t, and an exception: %q", one.request, listed[one.request], exception)
		}
	}
}

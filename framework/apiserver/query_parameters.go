package apiserver

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/job/editdistance"
)

// knownParameters returns the query parameters of each request, by method and pattern. A
// request that is not listed accepts none.
func knownParameters() map[string][]string {
	return map[string][]string{
		"GET /v1/jobs":                          {"limit", "after", "state", "order"},
		"GET /v1/schedules":                     {"limit", "after"},
		"GET /v1/agents":                        {"limit", "after"},
		"GET /v1/gpus":                          {"limit", "after"},
		"GET /v1/queue":                         {"limit", "after"},
		"GET /v1/roles":                         {"limit", "after"},
		"DELETE /v1/jobs/{name}":                {"force"},
		"GET /v1/tasks/{id}/log":                {"stream", "offset", "tail", "follow"},
		"GET /v1/usage":                         {"limit", "after", "job", "role", "task", "agent", "minutes"},
		"GET /v1/events":                        {"job", "state", "inventory"},
		"GET /v1/jobs/{name}/tasks/{task}/exec": {"argv", "tty", "stdin", "rows", "cols"},
	}
}

// checkQuery rejects unknown parameters, because ignoring a misspelled limit or filter
// would return a wrong result. The open paths and /metrics accept any parameter, because
// third-party programs request them.
func (s *apiServer) checkQuery(r *http.Request, pattern string) error {
	request := r.Method + " " + pattern
	if r.URL.RawQuery == "" || !strings.HasPrefix(pattern, "/v1/") || s.accessRules[request].permission == access.None {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return api.NewProblemf(http.StatusBadRequest, "parse query: %v", err)
	}
	known := knownParameters()[request]
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			return api.NewProblemf(http.StatusBadRequest, "%s has no parameter %q%s", request, name, suggestParameter(name, known)).WithCode(api.CodeUnknownParameter, name)
		}
	}
	return nil
}

func suggestParameter(name string, known []string) string {
	if best := editdistance.Nearest(name, known); best != "" {
		return "; did you mean " + best + "?"
	}
	if len(known) == 0 {
		return ": it takes none"
	}
	return "; it takes " + strings.Join(known, ", ")
}

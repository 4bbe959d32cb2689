package apiserver

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"mesos-gpu/framework/api"
	"mesos-gpu/job/editdistance"
)

// checkQuery rejects unknown parameters, because ignoring a misspelled limit or filter
// would return a wrong result. Requests of monitoring systems accept any parameter.
func checkQuery(r *http.Request, one *route) error {
	if r.URL.RawQuery == "" || one.servesMonitoring() {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return api.NewProblemf(http.StatusBadRequest, "parse query: %v", err)
	}
	known := strings.Fields(one.parameters)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(known, name) {
			return api.NewProblemf(http.StatusBadRequest, "%s has no parameter %q%s", one.request, name, suggestParameter(name,
				known)).WithCode(api.CodeUnknownParameter, name)
		}
	}
	return nil
}

// suggestParameter returns the end of a message about an unknown parameter: the most similar one, or all.
func suggestParameter(name string, known []string) string {
	if best := editdistance.Nearest(name, known); best != "" {
		return "; did you mean " + best + "?"
	}
	if len(known) == 0 {
		return ": it takes none"
	}
	return "; it takes " + strings.Join(known, ", ")
}

// parseBoolParameter returns the value of an optional parameter, false if it is absent. It accepts what strconv.ParseBool
// does: clients in Python send True.
func parseBoolParameter(query url.Values, name string) (bool, error) {
	text := query.Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, api.NewProblemf(http.StatusBadRequest, "%s %q is neither true nor false", name, text)
	}
	return value, nil
}

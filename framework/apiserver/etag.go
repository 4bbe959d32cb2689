package apiserver

import (
	"context"
	"net/http"
	"strings"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/request"
)

// ifMatchKey is the key of the tags of If-Match in a request's context.
type ifMatchKey struct{}

// changeOf returns the requester of a change and its condition.
func changeOf(r *http.Request) request.Change {
	tags, _ := r.Context().Value(ifMatchKey{}).([]string)
	return request.Change{By: apihttp.GrantOf(r.Context()), IfMatch: tags}
}

// parseIfMatch stores the tags of If-Match in the request's context. It returns a
// *api.Problem if the request does not support If-Match or the header is malformed.
func parseIfMatch(r *http.Request, one *route) (*http.Request, error) {
	values := r.Header.Values("If-Match")
	if len(values) == 0 {
		return r, nil
	}
	if !one.takesIfMatch {
		return r, api.NewProblemf(http.StatusBadRequest, "%s %s takes no If-Match", r.Method, r.URL.Path)
	}
	var tags []string
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		one = strings.TrimSpace(one)
		if one != "*" && !isQuoted(one) && !isQuoted(strings.TrimPrefix(one, "W/")) {
			return r, api.NewProblemf(http.StatusBadRequest, `If-Match: %s is neither * nor an ETag in quotes`, one)
		}
		tags = append(tags, one)
	}
	return r.WithContext(context.WithValue(r.Context(), ifMatchKey{}, tags)), nil
}

// isQuoted reports whether a text is in quotes and contains no other quote.
func isQuoted(text string) bool {
	return len(text) > 1 && text[0] == '"' && strings.IndexByte(text[1:], '"') == len(text)-2
}

// setETag sets the headers of a response with an ETag.
func setETag(w http.ResponseWriter, tag string) {
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-store")
}

// writeJSONWithETag writes a response with an ETag.
func writeJSONWithETag(w http.ResponseWriter, tag string, v any) {
	setETag(w, tag)
	apihttp.WriteJSON(w, http.StatusOK, v)
}

package apiserver

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
)

// parsePageRequest returns the limit and the cursor of a request. It does not check the cursor.
func parsePageRequest(v url.Values) (p api.PageRequest, err error) {
	p.After = v.Get("after")
	if text := v.Get("limit"); text != "" {
		if p.Limit, err = strconv.Atoi(text); err != nil || p.Limit < 1 || p.Limit > api.MaxPageLimit {
			return p, api.NewProblemf(http.StatusBadRequest, "limit %q is not a number from 1 to %d: leave it out for all", text, api.MaxPageLimit)
		}
	}
	return p, nil
}

// listPage returns the requested page of the list that read returns.
func listPage[T any](
	r *http.Request, name string, texts int, read func(ctx context.Context, laterPage bool) ([]T, error),
	key func([]T, int) request.SortKey,
) (page []T, next string, err error) {
	p, err := parsePageRequest(r.URL.Query())
	if err != nil {
		return nil, "", err
	}
	list, err := read(r.Context(), p.After != "")
	if err != nil {
		return nil, "", err
	}
	return request.CutPage(name, texts, list, p, key)
}

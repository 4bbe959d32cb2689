package master

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// leader asks one master where the leading one is. mesos-go follows a
// redirect for SUBSCRIBE only, and then sends every other call to the old
// address.
func (c *Config) leader(ctx context.Context, client *http.Client, candidate string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.CallTimeout)
	defer cancel()
	base := strings.TrimRight(candidate, "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/master/redirect", nil)
	if err != nil {
		return "", fmt.Errorf("ask %s for the leading master: %w", candidate, err)
	}
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask for the leading master: %w", err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusTemporaryRedirect:
		return redirected(base, res.Header.Get("Location"))
	case res.StatusCode == http.StatusNotFound:
		return base, nil // a master that is alone may not have the endpoint
	default:
		return "", fmt.Errorf("ask %s for the leading master: it answered %s", candidate, res.Status)
	}
}

// redirected makes a base URL of a Location, which names a host and, in old
// releases, no scheme.
func redirected(base, location string) (string, error) {
	from, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("parse master %q: %w", base, err)
	}
	to, err := from.Parse(location)
	if err != nil || to.Host == "" || location == "" {
		return "", fmt.Errorf("master %s redirects to %q, which is no address", base, location)
	}
	return to.Scheme + "://" + to.Host, nil
}

package master

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// errNewLeader ends the session with a master that is no longer the leader.
var errNewLeader = errors.New("another master leads now")

// leaderDetector finds the leading master.
type leaderDetector interface {
	// findLeader waits until the leader is known. changed is closed when
	// another master becomes the leader; it is nil if only the master itself
	// can report that.
	findLeader(ctx context.Context) (base string, changed <-chan struct{}, err error)
	// run updates the detector's knowledge until ctx ends.
	run(ctx context.Context)
}

// redirectDetector requests the leader from the configured masters in turn.
type redirectDetector struct {
	// cfg has the pauses between attempts.
	cfg *ConnectionConfig
	// urls are the addresses of all masters. next counts the attempts; each attempt uses the next address.
	urls   []string
	next   int
	client *http.Client
}

// run implements leaderDetector. There is nothing to watch.
func (d *redirectDetector) run(ctx context.Context) {
	<-ctx.Done()
	d.client.CloseIdleConnections()
}

// findLeader implements leaderDetector. Each call tries one master; the caller repeats it after a failure.
func (d *redirectDetector) findLeader(ctx context.Context) (string, <-chan struct{}, error) {
	candidate := d.urls[d.next%len(d.urls)]
	base, err := d.cfg.requestLeader(ctx, d.client, candidate)
	d.next++ // if this one fails, the next attempt uses another
	return base, nil, err
}

// requestLeader requests the leader from one master.
func (c *ConnectionConfig) requestLeader(ctx context.Context, client *http.Client, base string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/master/redirect", nil)
	if err != nil {
		return "", fmt.Errorf("ask %s for the leading master: %w", base, err)
	}
	res, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask for the leading master: %w", err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusTemporaryRedirect:
		return redirectTarget(base, res.Header.Get("Location"))
	case http.StatusNotFound:
		return base, nil // a single master may not have the endpoint
	default:
		return "", fmt.Errorf("ask %s for the leading master: %w", base, c.addAdvice(readStatusError(res)))
	}
}

// redirectTarget returns the base URL of a Location header. Mesos omits the
// scheme, so that an https client keeps https, and the brackets of IPv6
// addresses.
func redirectTarget(base, location string) (string, error) {
	wrong := func() (string, error) {
		return "", fmt.Errorf("master %s redirects to %q, which is not an address", base, location)
	}
	from, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("parse master %q: %w", base, err)
	}
	if host, ok := strings.CutPrefix(location, "//"); ok {
		host, path, _ := strings.Cut(host, "/")
		location = "//" + bracketIPv6(host) + "/" + path
	}
	to, err := from.Parse(location)
	if err != nil || to.Host == "" || location == "" || to.Scheme != "http" && to.Scheme != "https" {
		return wrong()
	}
	return to.Scheme + "://" + to.Host, nil
}

package master

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// statusError is an HTTP answer other than success, with the beginning of
// what it says.
type statusError struct {
	code     int
	text     string
	location string // of a redirect
}

func statusOf(res *http.Response) *statusError {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // what there is explains the status
	text := strings.TrimSpace(string(body))
	if line := fmt.Sprintf("%d %s.", res.StatusCode, http.StatusText(res.StatusCode)); text == line {
		text = "" // as Mesos's authenticator says it
	}
	return &statusError{code: res.StatusCode, text: text, location: res.Header.Get("Location")}
}

func (e *statusError) Error() string {
	line := fmt.Sprintf("%d %s", e.code, http.StatusText(e.code))
	switch {
	case e.code == http.StatusTemporaryRedirect:
		return line + ": another master leads, " + strings.Trim(e.location, "/")
	case e.text == "":
		return line
	default:
		return line + ": " + e.text
	}
}

// unsubscribed tells the 403 of a call outside any subscription from that of
// an authorizer.
func (e *statusError) unsubscribed() bool {
	return e.code == http.StatusForbidden && (e.text == "" || strings.HasPrefix(e.text, "Framework is not"))
}

// advise says what to do about a refusal of who we are.
func (c *Config) advise(e *statusError) error {
	who := c.Credential.Principal
	switch {
	case e.code == http.StatusUnauthorized && who == "":
		return fmt.Errorf("%w: it wants a principal and a secret: give a credential file", e)
	case e.code == http.StatusUnauthorized:
		return fmt.Errorf("%w: it does not know principal %q with our secret: compare the credential file with its --credentials or --http_credentials", e, who)
	case e.code == http.StatusForbidden && !e.unsubscribed() && who == "":
		return fmt.Errorf("%w: we have no principal: give a credential file", e)
	case e.code == http.StatusForbidden && !e.unsubscribed():
		return fmt.Errorf("%w: principal %q may not do that: see its --acls", e, who)
	}
	return e
}

func hasStatus(err error, code int) bool {
	var status *statusError
	return errors.As(err, &status) && status.code == code
}

// blame says whom a failed call is about.
type blame int

const (
	// theCall: the master will never take it; other calls are as good as ever.
	theCall blame = iota
	// thisMoment: the same call may do later.
	thisMoment
	// theSession: no call will be taken before the next SUBSCRIBED.
	theSession
)

func blameOf(err error) blame {
	var status *statusError
	if !errors.As(err, &status) {
		return thisMoment // there was no answer
	}
	switch code := status.code; {
	case code == http.StatusTemporaryRedirect, code == http.StatusUnauthorized, status.unsubscribed():
		return theSession
	case code == http.StatusNotFound, // its routes are not set up yet
		code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		return thisMoment
	default:
		return theCall
	}
}

// unsent reports whether the master surely has not taken the call.
func unsent(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.code != http.StatusBadGateway && status.code != http.StatusGatewayTimeout // a proxy's
	}
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

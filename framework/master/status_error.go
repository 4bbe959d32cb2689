package master

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// statusError is an HTTP response other than success, with the start of its
// body.
type statusError struct {
	// code is the HTTP status, text the start of the body, location the target of a redirect.
	code     int
	text     string
	location string
}

// readStatusError returns the error of a response. The caller closes the body.
func readStatusError(res *http.Response) *statusError {
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // a partial body still explains the status
	text := strings.TrimSpace(string(body))
	if line := fmt.Sprintf("%d %s.", res.StatusCode, http.StatusText(res.StatusCode)); text == line {
		text = "" // Mesos's authenticator repeats the status
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

// isUnsubscribed distinguishes the 403 of a call without a subscription from
// the 403 of an authorizer.
func (e *statusError) isUnsubscribed() bool {
	return e.code == http.StatusForbidden && (e.text == "" || strings.HasPrefix(e.text, "Framework is not"))
}

// addAdvice adds a remedy to authentication and authorization errors.
func (c *ConnectionConfig) addAdvice(e *statusError) error {
	principal := c.Credential.Principal
	switch {
	case e.code == http.StatusUnauthorized && principal == "":
		return fmt.Errorf("%w: it requires a principal and a secret: give a credential file", e)
	case e.code == http.StatusUnauthorized:
		return fmt.Errorf("%w: it rejects principal %q with this secret: compare the credential file with its --credentials or --http_credentials", e, principal)
	case e.code == http.StatusForbidden && !e.isUnsubscribed() && principal == "":
		return fmt.Errorf("%w: no principal is configured: give a credential file", e)
	case e.code == http.StatusForbidden && !e.isUnsubscribed():
		return fmt.Errorf("%w: principal %q may not do that: see its --acls", e, principal)
	}
	return e
}

// hasStatus reports whether err is a response with that HTTP status.
func hasStatus(err error, code int) bool {
	var status *statusError
	return errors.As(err, &status) && status.code == code
}

// failureScope classifies failed calls by what they affect.
type failureScope int

const (
	// scopeCall: the master rejects this call for good; other calls are not
	// affected.
	scopeCall failureScope = iota
	// scopeTransient: the same call may succeed later.
	scopeTransient
	// scopeSession: every call is rejected until the next SUBSCRIBED.
	scopeSession
)

// failureScopeOf returns what the failure of a call affects. A call without a response may have been carried out.
func failureScopeOf(err error) failureScope {
	var status *statusError
	if !errors.As(err, &status) {
		return scopeTransient // there was no response
	}
	switch code := status.code; {
	case code == http.StatusTemporaryRedirect, code == http.StatusUnauthorized, status.isUnsubscribed():
		return scopeSession
	case code == http.StatusNotFound, // the master's routes are not set up yet
		code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500:
		return scopeTransient
	default:
		return scopeCall
	}
}

// wasNotSent reports whether the master certainly has not received the call.
func wasNotSent(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.code != http.StatusBadGateway && status.code != http.StatusGatewayTimeout // these come from a proxy
	}
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

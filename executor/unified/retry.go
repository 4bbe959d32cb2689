package unified

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/httpcli"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/apierrors"
)

// permanentError marks an error that a retry would repeat.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// retryCall makes a call until it succeeds, the agent rejects it, or ctx ends.
func (r *nestedContainer) retryCall(ctx context.Context, call func() error) error {
	for {
		err := classifyError(call())
		if err == nil || errors.As(err, new(permanentError)) || ctx.Err() != nil {
			return err
		}
		r.log.WithError(err).Warn("agent did not answer; trying again")
		select {
		case <-time.After(retryInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// permanentCodes are the answers that a retry would repeat.
var permanentCodes = [...]apierrors.Code{
	apierrors.CodeMalformedRequest, apierrors.CodeUnsupportedMediaType, apierrors.CodeIncompatibleVersion, apierrors.CodeNotLeader,
	http.StatusUnsupportedMediaType, http.StatusInternalServerError, http.StatusNotImplemented,
}

// classifyError marks rejected calls as permanent. Other errors may be
// temporary.
func classifyError(err error) error {
	switch {
	case err == nil, errors.As(err, new(permanentError)):
		return err
	case apierrors.CodeNotFound.Matches(err):
		return permanentError{errUnknownContainer}
	case apierrors.CodeNotAuthenticated.Matches(err), apierrors.CodeUnsubscribed.Matches(err):
		return permanentError{fmt.Errorf("%w: let executors use the agent's operator API (--authenticate_http_executors, or ACLs for nested containers)", err)}
	case errors.As(err, new(httpcli.ProtocolError)):
		return permanentError{err}
	}
	for _, code := range permanentCodes {
		if code.Matches(err) {
			return permanentError{err}
		}
	}
	return err
}

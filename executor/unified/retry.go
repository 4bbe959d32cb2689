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

// fatal marks an error that another try would meet again.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// retry makes call until it succeeds, the agent refuses it, or ctx ends.
func (r *running) retry(ctx context.Context, call func() error) error {
	for {
		err := verdict(call())
		if err == nil || errors.As(err, new(fatal)) || ctx.Err() != nil {
			return err
		}
		r.log.WithError(err).Warn("agent did not answer; trying again")
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refusals are the answers that stay the same however often one asks.
var refusals = [...]apierrors.Code{
	apierrors.CodeMalformedRequest, apierrors.CodeUnsupportedMediaType, apierrors.CodeIncompatibleVersion, apierrors.CodeNotLeader,
	http.StatusUnsupportedMediaType, http.StatusInternalServerError, http.StatusNotImplemented,
}

// verdict tells what an agent refuses from what it could not hear.
func verdict(err error) error {
	switch {
	case err == nil, errors.As(err, new(fatal)):
		return err
	case apierrors.CodeNotFound.Matches(err):
		return fatal{errGone}
	case apierrors.CodeNotAuthenticated.Matches(err), apierrors.CodeUnsubscribed.Matches(err):
		return fatal{fmt.Errorf("%w: let executors use the agent's operator API (--authenticate_http_executors, or ACLs for nested containers)", err)}
	case errors.As(err, new(httpcli.ProtocolError)):
		return fatal{err}
	}
	for _, code := range refusals {
		if code.Matches(err) {
			return fatal{err}
		}
	}
	return err
}

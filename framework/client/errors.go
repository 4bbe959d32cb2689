package client

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"mesos-gpu/framework/api"
)

// Problem is an error response of the scheduler. errors.As finds it in the errors of all
// requests. Programs should decide by its Code: the text may change.
type Problem = api.Problem

// Codes of the problems that programs most often handle. Package api defines the others.
const (
	CodeJobNotFound          = api.CodeJobNotFound
	CodeTaskNotFound         = api.CodeTaskNotFound
	CodeScheduleNotFound     = api.CodeScheduleNotFound
	CodeAgentNotFound        = api.CodeAgentNotFound
	CodeRoleNotFound         = api.CodeRoleNotFound
	CodeLogNotFound          = api.CodeLogNotFound
	CodeTaskNotRunning       = api.CodeTaskNotRunning
	CodeJobExists            = api.CodeJobExists
	CodeJobAmbiguous         = api.CodeJobAmbiguous
	CodeScheduleExists       = api.CodeScheduleExists
	CodeIdempotencyKeyReused = api.CodeIdempotencyKeyReused
	CodePreconditionFailed   = api.CodePreconditionFailed
	CodeForbidden            = api.CodeForbidden
	CodeUnauthenticated      = api.CodeUnauthenticated
	CodeUnavailable          = api.CodeUnavailable
)

// NoListenerError means that no process listens at any of the client's addresses. It
// wraps syscall.ECONNREFUSED.
type NoListenerError struct {
	// Addresses are all addresses that were tried.
	Addresses []string
	err       error
}

func (e *NoListenerError) Error() string {
	return fmt.Sprintf("no scheduler listens at %s (%v)", strings.Join(e.Addresses, ", "), syscall.ECONNREFUSED)
}

// Unwrap returns the error of the last connection attempt.
func (e *NoListenerError) Unwrap() error { return e.err }

// CodeOf returns the code of the scheduler's problem in err, or "" if err has none.
func CodeOf(err error) api.ProblemCode {
	var p *api.Problem
	if !errors.As(err, &p) {
		return ""
	}
	return p.Code
}

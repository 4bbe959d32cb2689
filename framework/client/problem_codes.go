package client

import (
	"errors"

	"mesos-gpu/framework/api"
)

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
	CodeScheduleExists       = api.CodeScheduleExists
	CodeIdempotencyKeyReused = api.CodeIdempotencyKeyReused
	CodePreconditionFailed   = api.CodePreconditionFailed
	CodeForbidden            = api.CodeForbidden
	CodeUnauthenticated      = api.CodeUnauthenticated
	CodeUnavailable          = api.CodeUnavailable
)

// CodeOf returns the code of the scheduler's problem in err, or "" if err has none.
func CodeOf(err error) api.ProblemCode {
	var p *api.Problem
	if !errors.As(err, &p) {
		return ""
	}
	return p.Code
}

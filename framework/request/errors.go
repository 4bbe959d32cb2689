package request

import (
	"errors"
	"net/http"

	"mesos-gpu/framework/api"
)

// ErrNoLog means that a task has not written the log file, or not yet.
var ErrNoLog = errors.New("no log")

// ErrNoFile means that a task's sandbox has no such file, or that its agent has removed
// the sandbox. ErrUnreadable means that the agent does not serve the path: a link leads
// out of the sandbox.
var (
	ErrNoFile     = errors.New("no file")
	ErrUnreadable = errors.New("not readable")
)

// ErrScheduleDamaged means that a schedule exists but cannot be decoded. It can be ended.
var ErrScheduleDamaged = errors.New("it is damaged")

// UnknownArchive is the Problem of a wrong token and of a run that has no archive, or
// none of whose tasks starts.
func UnknownArchive() *api.Problem {
	return api.NewProblemf(http.StatusNotFound, "there is no such archive, or no task of its run is starting")
}

package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Problem is an error as the API shows it (RFC 9457).
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Retryable is set if nothing has been done and a retry may succeed.
	Retryable bool `json:"undone,omitempty"`
	// Code classifies the problem for programs. It is empty if the response comes from
	// a proxy or an earlier version of the scheduler.
	Code ProblemCode `json:"code"`
	// Name is the name that Code is about, such as that of the missing job.
	Name string `json:"name,omitempty"`
	// Field is the key of the job file that is at fault, if a job is refused for one.
	Field string `json:"field,omitempty"`
	// RetryAfter is when a retry may succeed at the earliest, 0 if that is not known.
	RetryAfter time.Duration `json:"-"`
	// LeaderURL is the base URL of the leader's API, with status 307.
	LeaderURL string `json:"-"`

	cause error
}

// Unwrap returns the error that was wrapped by %w in NewProblemf's format.
func (p *Problem) Unwrap() error { return p.cause }

func (p *Problem) Error() string { return p.Detail }

// NewProblemf returns a Problem with the HTTP status and the code of that status.
func NewProblemf(status int, format string, args ...any) *Problem {
	err := fmt.Errorf(format, args...)
	return &Problem{Title: http.StatusText(status), Status: status, Detail: err.Error(), Code: codeOfStatus(status), cause: errors.Unwrap(err)}
}

// RedirectToLeader returns the Problem by which a standby redirects a request to
// the leader's API at url.
func RedirectToLeader(url string) *Problem {
	p := NewProblemf(http.StatusTemporaryRedirect, "this scheduler is a standby: the leader is at %s", url)
	p.Retryable, p.LeaderURL = true, url
	return p
}

// NewUnavailable returns a retryable Problem with status 503.
func NewUnavailable(format string, args ...any) *Problem {
	p := NewProblemf(http.StatusServiceUnavailable, format, args...)
	p.Retryable = true
	return p
}

// UnknownJob returns the problem of a job that does not exist, and of one that the
// client may not see. Both responses are equal, so that a client cannot distinguish
// them. The same applies to UnknownTask and UnknownSchedule.
func UnknownJob(name string) *Problem {
	return NewProblemf(http.StatusNotFound, "there is no job %q", name).WithCode(CodeJobNotFound, name)
}

// AmbiguousJob is the problem of a name that may mean one of several jobs, whose qualified names are candidates.
func AmbiguousJob(name string, candidates []string) *Problem {
	return NewProblemf(http.StatusConflict, "%q names %d jobs: name one of %s, or its number", name, len(candidates), strings.Join(candidates, ", ")).
		WithCode(CodeJobAmbiguous, name)
}

// AmbiguousSchedule is the problem of a name that may mean several schedules.
func AmbiguousSchedule(name string, candidates []string) *Problem {
	return NewProblemf(http.StatusConflict, "%q names %d schedules: name one of %s", name, len(candidates), strings.Join(candidates, ", ")).
		WithCode(CodeJobAmbiguous, name)
}

// UnknownTask is the problem of a task that does not exist; see UnknownJob.
func UnknownTask(id string) *Problem {
	return NewProblemf(http.StatusNotFound, "there is no task %q", id).WithCode(CodeTaskNotFound, id)
}

// UnknownSchedule is the problem of a schedule that does not exist; see UnknownJob.
func UnknownSchedule(name string) *Problem {
	return NewProblemf(http.StatusNotFound, "there is no schedule %q", name).WithCode(CodeScheduleNotFound, name)
}

// UnknownNotification is the problem of a notification that does not exist: it was delivered or dropped, or the client
// may not see it.
func UnknownNotification(id string) *Problem {
	return NewProblemf(http.StatusNotFound, "there is no notification %q that was not delivered", id)
}

// UnknownAgent is the problem of an agent that the scheduler does not know.
func UnknownAgent(name string) *Problem {
	return NewProblemf(http.StatusNotFound, "there is no agent with the id or hostname %q", name).WithCode(CodeAgentNotFound, name)
}

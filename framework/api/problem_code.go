package api

import (
	"net/http"
)

// ProblemCode classifies a Problem for programs. A code keeps its meaning in all
// later versions, whereas the wording of Detail may change. Programs treat a
// code that they do not know like the HTTP status.
type ProblemCode string

// Codes that only repeat the HTTP status.
const (
	CodeInvalidRequest     ProblemCode = "invalid_request"
	CodeUnauthenticated    ProblemCode = "unauthenticated"
	CodeForbidden          ProblemCode = "forbidden"
	CodeNotFound           ProblemCode = "not_found"
	CodeMethodNotAllowed   ProblemCode = "method_not_allowed"
	CodeTimeout            ProblemCode = "timeout"
	CodeConflict           ProblemCode = "conflict"
	CodePreconditionFailed ProblemCode = "precondition_failed"
	CodeBodyTooLarge       ProblemCode = "body_too_large"
	CodeUnprocessable      ProblemCode = "unprocessable"
	CodeInternal           ProblemCode = "internal"
	CodeMesosFailed        ProblemCode = "mesos_failed"
	CodeUnavailable        ProblemCode = "unavailable"
	CodeTooManyRequests    ProblemCode = "too_many_requests"
	CodeOther              ProblemCode = "other"
)

// Codes that are more specific than the HTTP status. Problem.Name is the name that a
// code refers to: of the job, the parameter, or the program.
const (
	// CodeLeaderElsewhere: a standby redirects the request to the leader.
	CodeLeaderElsewhere  ProblemCode = "leader_elsewhere"
	CodeUnknownParameter ProblemCode = "unknown_parameter"
	CodeJobNotFound      ProblemCode = "job_not_found"
	CodeTaskNotFound     ProblemCode = "task_not_found"
	CodeScheduleNotFound ProblemCode = "schedule_not_found"
	CodeAgentNotFound    ProblemCode = "agent_not_found"
	CodeRoleNotFound     ProblemCode = "role_not_found"
	CodeLogNotFound      ProblemCode = "log_not_found"
	// CodeWorkdirNotFound: the scheduler does not store the archive of the job's working
	// folder. The client uploads it and submits the job again.
	CodeWorkdirNotFound ProblemCode = "workdir_not_found"
	// CodeFileNotFound: the sandbox of the task has no such file, or does not exist any more.
	CodeFileNotFound   ProblemCode = "file_not_found"
	CodeTaskNotRunning ProblemCode = "task_not_running"
	CodeExecDisabled   ProblemCode = "exec_disabled"
	// CodeExitUnknown: the task's container was removed before the command's exit code was read.
	CodeExitUnknown     ProblemCode = "exit_unknown"
	CodePortClosed      ProblemCode = "port_closed" // the task does not accept connections on the port
	CodeTooManySessions ProblemCode = "too_many_sessions"
	// CodeTooManyStreams: the client, or all clients together, have as many event
	// streams and logs open as the scheduler permits. CodeOverloaded: the same for
	// other requests of all clients.
	CodeTooManyStreams ProblemCode = "too_many_streams"
	CodeOverloaded     ProblemCode = "overloaded"
	// CodeTooManySubmissions: the user has submitted as many jobs as the role permits in a
	// minute. CodeTooManyWaitingJobs: as many jobs of the user, whom Name has, or of the role
	// wait as are permitted.
	CodeTooManySubmissions   ProblemCode = "too_many_submissions"
	CodeTooManyWaitingJobs   ProblemCode = "too_many_waiting_jobs"
	CodeJobExists            ProblemCode = "job_exists"
	CodeJobAmbiguous         ProblemCode = "job_ambiguous" // the name may mean jobs of several owners
	CodeScheduleExists       ProblemCode = "schedule_exists"
	CodeIdempotencyKeyReused ProblemCode = "idempotency_key_reused"
	// CodeReserved: only the scheduler may set the label or the group.
	CodeReserved ProblemCode = "reserved"
	// These four are reasons why a container does not start a program.
	CodeProgramNotFound     ProblemCode = "program_not_found"
	CodeProgramNotPermitted ProblemCode = "program_not_permitted"
	CodeProgramWrongFormat  ProblemCode = "program_wrong_format"
	CodeProgramIsDirectory  ProblemCode = "program_is_directory"
)

// codeOfStatus returns the code of problems for which no other is set.
func codeOfStatus(status int) ProblemCode {
	code, ok := map[int]ProblemCode{
		http.StatusTemporaryRedirect:     CodeLeaderElsewhere,
		http.StatusBadRequest:            CodeInvalidRequest,
		http.StatusUnauthorized:          CodeUnauthenticated,
		http.StatusForbidden:             CodeForbidden,
		http.StatusNotFound:              CodeNotFound,
		http.StatusMethodNotAllowed:      CodeMethodNotAllowed,
		http.StatusRequestTimeout:        CodeTimeout,
		http.StatusConflict:              CodeConflict,
		http.StatusPreconditionFailed:    CodePreconditionFailed,
		http.StatusRequestEntityTooLarge: CodeBodyTooLarge,
		http.StatusUnprocessableEntity:   CodeUnprocessable,
		http.StatusInternalServerError:   CodeInternal,
		http.StatusBadGateway:            CodeMesosFailed,
		http.StatusServiceUnavailable:    CodeUnavailable,
		http.StatusTooManyRequests:       CodeTooManyRequests,
	}[status]
	if !ok {
		return CodeOther
	}
	return code
}

// WithCode sets the code of p, and the name that the code is about.
func (p *Problem) WithCode(code ProblemCode, name string) *Problem {
	p.Code, p.Name = code, name
	return p
}

package apiserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/internal/portrelay"
	"mesos-gpu/job"
)

// TaskStreams connect clients to running tasks.
type TaskStreams interface {
	// Exec runs a command in a running task's container until it ends or ctx
	// does, and returns its exit code: 128 plus the signal's number where a
	// signal ended it. Its errors are *api.Problem where there is no such job or
	// task, the task does not run, or it has no container.
	Exec(ctx context.Context, name string, task int, r api.ExecRequest, t api.Terminal) (int, error)
	// OpenPort connects to a port of a running task, as of job.Spec.ConnectAddresses. Its
	// errors are as of Exec, with CodePortClosed if the task accepts no connections.
	OpenPort(ctx context.Context, name string, task int, port string) (portrelay.HalfCloser, error)
	// TrackConnection counts a client that is connected to a job until done is called. It
	// delays the end of a job with an idle timeout.
	TrackConnection(name string) (done func())
}

// parseExecRequest returns the command in a request's parameters.
func parseExecRequest(q url.Values) (r api.ExecRequest, err error) {
	r.Argv = q["argv"]
	for name, to := range map[string]*bool{"tty": &r.TTY, "stdin": &r.Stdin} {
		if *to, err = parseBoolParameter(q, name); err != nil {
			return r, err
		}
	}
	for name, to := range map[string]*int{"rows": &r.Rows, "cols": &r.Cols} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.Atoi(text); err != nil {
				return r, api.NewProblemf(http.StatusBadRequest, "%s %q is not a number", name, text)
			}
		}
	}
	if err := r.Validate(); err != nil {
		return r, api.NewProblemf(http.StatusBadRequest, "%v", err)
	}
	return r, nil
}

// handleExec runs a command in a task's container, over a WebSocket. It checks what it
// can before the upgrade, so that the client gets an HTTP status.
func (s *apiServer) handleExec(w http.ResponseWriter, r *http.Request) error {
	if err := checkSameOrigin(r); err != nil {
		return err
	}
	request, err := parseExecRequest(r.URL.Query())
	if err != nil {
		return err
	}
	leader, _, task, err := s.findExecTarget(r.Context(), r.PathValue(runOfPath), r.PathValue("task"))
	if err != nil {
		return err
	}
	return s.runInTask(w, r, leader, task, request)
}

// handleAttach connects a client to a task that takes one, over a WebSocket as for
// handleExec.
func (s *apiServer) handleAttach(w http.ResponseWriter, r *http.Request) error {
	if err := checkSameOrigin(r); err != nil {
		return err
	}
	q := r.URL.Query()
	q["argv"] = []string{"sh"} // a valid command in place of the one that only the job determines
	request, err := parseExecRequest(q)
	if err != nil {
		return err
	}
	leader, spec, task, err := s.findExecTarget(r.Context(), r.PathValue(runOfPath), r.PathValue("task"))
	if err != nil {
		return err
	}
	if !spec.TakesClient() {
		return api.NewProblemf(http.StatusConflict, "job %s takes no client: it has neither stdin nor tty; exec runs other commands in its container", spec.Name)
	}
	request.Argv, request.TTY, request.Stdin = spec.AttachCommand(rand.Text()), spec.TTY, true
	return s.runInTask(w, r, leader, task, request)
}

// runInTask runs a command in a task's container for the client of the request.
func (s *apiServer) runInTask(w http.ResponseWriter, r *http.Request, leader *LeaderBackend, task job.Task, request api.ExecRequest) error {
	defer leader.Streams.TrackConnection(task.RunID().String())()
	note := apihttp.AuditNoteOf(r.Context())
	note.Job, note.Task, note.Argv = task.Job, task.ID, auditArgv(request.Argv)
	return s.runExecSession(w, r, func(ctx context.Context, t api.Terminal) (int, error) {
		code, err := leader.Streams.Exec(ctx, task.RunID().String(), task.Index, request, t)
		return code, classifyStartError(request.Argv[0], err)
	}, request.Stdin)
}

// ifExecEnabled returns the check of a request that runs a command, or reaches a port of a task.
func ifExecEnabled(check scopeCheck) scopeCheck {
	return func(s *apiServer, r *http.Request, p access.Permission) error {
		if err := s.checkExecEnabled(); err != nil {
			return err
		}
		return check(s, r, p)
	}
}

// checkExecEnabled returns the Problem of a scheduler whose operator permits no commands in containers.
func (s *apiServer) checkExecEnabled() error {
	if s.execEnabled {
		return nil
	}
	return api.NewProblemf(http.StatusForbidden,
		"this scheduler runs no commands in containers: its operator has turned that off (--exec=false)").WithCode(api.CodeExecDisabled, "")
}

// findExecTarget returns the running task and the specification of its job, and the
// leader, which runs the command.
func (s *apiServer) findExecTarget(ctx context.Context, name, index string) (leader *LeaderBackend, spec *job.Spec, t job.Task, err error) {
	if leader, err = s.leader(ctx); err != nil {
		return nil, nil, t, err
	}
	reads, err := s.reads(ctx)
	if err != nil {
		return nil, nil, t, err
	}
	view, err := reads.Jobs.GetJob(ctx, name)
	if err != nil {
		return nil, nil, t, err
	}
	at := slices.IndexFunc(view.Tasks, func(t job.Task) bool { return strconv.Itoa(t.Index) == index })
	tasks := view.Tasks[max(at, 0):]
	if at < 0 {
		tasks = nil
		if i, err := strconv.Atoi(index); err == nil && i >= len(view.Tasks) && view.OmittedTasks > 0 {
			if tasks, err = reads.Jobs.ListTasks(ctx, name, view.Submitted, i, 1); err != nil {
				return nil, nil, t, err
			}
		}
	}
	if len(tasks) == 0 {
		return nil, nil, t, api.NewProblemf(http.StatusNotFound, "job %s has no task %q: it has %d, counted from 0",
			view.Spec.Name, index, len(view.Tasks)+view.OmittedTasks).WithCode(api.CodeTaskNotFound, view.Spec.Name+"."+index)
	}
	if t = tasks[0]; t.State != job.Running {
		return nil, nil, t, api.NewProblemf(http.StatusConflict,
			"task %s is %s: commands run in the containers of tasks that are %s", t.ID, t.State, job.Running).WithCode(api.CodeTaskNotRunning, t.ID)
	}
	return leader, view.Spec, t, nil
}

// maxAuditArgv limits the part of a command in the audit log, in characters.
const maxAuditArgv = 256

// auditArgv returns the start of a command for the audit log.
func auditArgv(argv []string) string {
	text := []rune(fmt.Sprintf("%q", argv))
	return string(text[:min(len(text), maxAuditArgv)])
}

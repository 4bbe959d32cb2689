package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"mesos-gpu/job"
)

// ExecRequest is a command to run in a task's container.
type ExecRequest struct {
	// Argv is the program and its arguments: at least one element, MaxArgv in total.
	Argv []string
	// TTY allocates a terminal for the command. Stdin connects its standard input.
	TTY   bool
	Stdin bool
	// Rows and Cols are the initial size of the terminal; 0 means unknown.
	Rows, Cols int
}

// Terminal is the client's side of a command: its input, its output and the size of the
// window.
type Terminal struct {
	Stdin          io.Reader         // nil for none; a Read may block until Exec returns or its ctx ends
	Stdout, Stderr io.Writer         // with a TTY all output goes to Stdout
	Resize         <-chan WindowSize // nil if the size never changes
}

// WindowSize is the size of a terminal window, in characters.
type WindowSize struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

const (
	// MaxArgv limits the total size of the arguments, in bytes. Each argument counts
	// one byte for its terminator.
	MaxArgv = 64 << 10
	// maxWindowSide limits rows and columns, as the kernel does.
	maxWindowSide = 1<<16 - 1
	// maxExecSessions limits how many commands run through one scheduler concurrently.
	maxExecSessions = 128
)

// Validate returns an error if the request is invalid.
func (r *ExecRequest) Validate() error {
	if len(r.Argv) == 0 || r.Argv[0] == "" {
		return fmt.Errorf("argv: say which program to run")
	}
	size := 0
	for _, arg := range r.Argv {
		size += len(arg) + 1
	}
	if size > MaxArgv {
		return fmt.Errorf("argv: it has %d bytes, at most %d are taken: send the rest on standard input", size, MaxArgv)
	}
	return (WindowSize{r.Rows, r.Cols}).validate()
}

func (s WindowSize) validate() error {
	if min(s.Rows, s.Cols) < 0 || max(s.Rows, s.Cols) > maxWindowSide {
		return fmt.Errorf("%d rows and %d cols are no window: each is 0 to %d", s.Rows, s.Cols, maxWindowSide)
	}
	return nil
}

// EncodeQuery returns the request as URL query parameters.
func (r *ExecRequest) EncodeQuery() url.Values {
	q := url.Values{"argv": r.Argv}
	for name, on := range map[string]bool{"tty": r.TTY, "stdin": r.Stdin} {
		if on {
			q.Set(name, "true")
		}
	}
	for name, n := range map[string]int{"rows": r.Rows, "cols": r.Cols} {
		if n != 0 {
			q.Set(name, strconv.Itoa(n))
		}
	}
	return q
}

func parseExecRequest(q url.Values) (r ExecRequest, err error) {
	r.Argv = q["argv"]
	for name, to := range map[string]*bool{"tty": &r.TTY, "stdin": &r.Stdin} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.ParseBool(text); err != nil {
				return r, NewProblemf(http.StatusBadRequest, "%s %q is neither true nor false", name, text)
			}
		}
	}
	for name, to := range map[string]*int{"rows": &r.Rows, "cols": &r.Cols} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.Atoi(text); err != nil {
				return r, NewProblemf(http.StatusBadRequest, "%s %q is no number", name, text)
			}
		}
	}
	if err := r.Validate(); err != nil {
		return r, NewProblemf(http.StatusBadRequest, "%v", err)
	}
	return r, nil
}

// handleExec runs a command in a task's container, over a WebSocket. It checks what it
// can before the upgrade, so that the client gets an HTTP status.
func (s *apiServer) handleExec(w http.ResponseWriter, r *http.Request) error {
	if !s.execEnabled {
		return NewProblemf(http.StatusForbidden, "this scheduler runs no commands in containers: its operator has turned that off (--exec=false)").WithCode(CodeExecDisabled, "")
	}
	if err := checkSameOrigin(r); err != nil {
		return err
	}
	request, err := parseExecRequest(r.URL.Query())
	if err != nil {
		return err
	}
	leader, task, err := s.findExecTarget(r.Context(), r.PathValue("name"), r.PathValue("task"))
	if err != nil {
		return err
	}
	note := AuditNoteOf(r.Context())
	note.Job, note.Task, note.Argv = task.Job, task.ID, auditArgv(request.Argv)
	select {
	case s.execSlots <- struct{}{}:
		defer func() { <-s.execSlots }()
	default:
		return NewProblemf(http.StatusServiceUnavailable, "%d commands run in containers through this scheduler, and it takes no more at a time: end one of them", cap(s.execSlots)).WithCode(CodeTooManySessions, "")
	}
	return s.runExecSession(w, r, func(ctx context.Context, t Terminal) (int, error) {
		code, err := leader.Exec(ctx, task.Job, task.Index, request, t)
		return code, classifyStartError(request.Argv[0], err)
	}, request.Stdin)
}

// findExecTarget returns the running task, and the leader, which runs the
// command.
func (s *apiServer) findExecTarget(ctx context.Context, name, index string) (leader LeaderBackend, t job.Task, err error) {
	if leader, err = s.leader(ctx); err != nil {
		return nil, t, err
	}
	reads, err := s.reads(ctx)
	if err != nil {
		return nil, t, err
	}
	view, err := reads.GetJob(ctx, name)
	if err != nil {
		return nil, t, err
	}
	i := slices.IndexFunc(view.Tasks, func(t job.Task) bool { return strconv.Itoa(t.Index) == index })
	if i < 0 {
		return nil, t, NewProblemf(http.StatusNotFound, "job %s has no task %q: it has %d, counted from 0", name, index, len(view.Tasks)).WithCode(CodeTaskNotFound, name+"."+index)
	}
	if t = view.Tasks[i]; t.State != job.Running {
		return nil, t, NewProblemf(http.StatusConflict, "task %s is %s: commands run in the containers of tasks that are %s", t.ID, t.State, job.Running).WithCode(CodeTaskNotRunning, t.ID)
	}
	return leader, t, nil
}

// maxAuditArgv limits the part of a command in the audit log, in characters.
const maxAuditArgv = 256

func auditArgv(argv []string) string {
	text := []rune(fmt.Sprintf("%q", argv))
	return string(text[:min(len(text), maxAuditArgv)])
}

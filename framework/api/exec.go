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

// ExecRequest is what to run in a task's container.
type ExecRequest struct {
	// Argv is the program and its arguments: at least one, MaxArgv in all.
	Argv []string
	// TTY has it run on a terminal of its own, Stdin have input.
	TTY   bool
	Stdin bool
	// Rows and Cols are the terminal's at first; 0: not known.
	Rows, Cols int
}

// Terminal is the other end of a command: what is typed, what it prints, and
// how big the window is.
type Terminal struct {
	Stdin          io.Reader   // nil: none; a Read waits for input, until Exec returns or its ctx ends
	Stdout, Stderr io.Writer   // with a TTY all goes to Stdout
	Resize         <-chan Size // nil: never
}

// Size is a terminal window's, in characters.
type Size struct {
	Rows int `json:"rows"`
	Cols int `json:"cols"`
}

// Execer runs commands in tasks' containers. The Backend that leads is one.
type Execer interface {
	// Exec runs a command in a running task's container until it ends or ctx
	// does, and returns its exit code: 128 and the signal's number where one
	// ended it. Its errors are *Problem where there is no such job or task, it
	// does not run, or has no container.
	Exec(ctx context.Context, name string, task int, r ExecRequest, t Terminal) (int, error)
}

// Follower is a Backend that does not lead.
type Follower interface {
	// Elsewhere is the error that sends a request to who leads: NotLeader, or
	// NotYet where nobody is known to.
	Elsewhere(ctx context.Context) error
}

const (
	// MaxArgv bounds a command's arguments, in bytes, each with the one that
	// ends it.
	MaxArgv = 64 << 10
	// maxSide bounds a window's rows and columns, as the kernel does.
	maxSide = 1<<16 - 1
	// maxSessions bounds how many commands run through one scheduler.
	maxSessions = 128
)

// Validate says what is wrong with the request.
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
	return (Size{r.Rows, r.Cols}).validate()
}

func (s Size) validate() error {
	if min(s.Rows, s.Cols) < 0 || max(s.Rows, s.Cols) > maxSide {
		return fmt.Errorf("%d rows and %d cols are no window: each is 0 to %d", s.Rows, s.Cols, maxSide)
	}
	return nil
}

// Query is the request as its URL has it.
func (r *ExecRequest) Query() url.Values {
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

func parseExec(q url.Values) (r ExecRequest, err error) {
	r.Argv = q["argv"]
	for name, to := range map[string]*bool{"tty": &r.TTY, "stdin": &r.Stdin} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.ParseBool(text); err != nil {
				return r, Problemf(http.StatusBadRequest, "%s %q is neither true nor false", name, text)
			}
		}
	}
	for name, to := range map[string]*int{"rows": &r.Rows, "cols": &r.Cols} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.Atoi(text); err != nil {
				return r, Problemf(http.StatusBadRequest, "%s %q is no number", name, text)
			}
		}
	}
	if err := r.Validate(); err != nil {
		return r, Problemf(http.StatusBadRequest, "%v", err)
	}
	return r, nil
}

// exec runs a command in a task's container, and speaks of it over a WebSocket.
// What can be known to be in the way is answered before that begins.
func (s *server) exec(w http.ResponseWriter, r *http.Request) error {
	if !s.execs {
		return Problemf(http.StatusForbidden, "this scheduler runs no commands in containers: its operator has turned that off (--exec=false)")
	}
	if err := ownPage(r); err != nil {
		return err
	}
	request, err := parseExec(r.URL.Query())
	if err != nil {
		return err
	}
	runs, task, err := s.target(r.Context(), r.PathValue("name"), r.PathValue("task"))
	if err != nil {
		return err
	}
	note := NoteOf(r.Context())
	note.Job, note.Task, note.Argv = task.Job, task.ID, noted(request.Argv)
	select {
	case s.sessions <- struct{}{}:
		defer func() { <-s.sessions }()
	default:
		return Problemf(http.StatusServiceUnavailable, "%d commands run in containers through this scheduler, and it takes no more at a time: end one of them", cap(s.sessions))
	}
	return s.converse(w, r, func(ctx context.Context, t Terminal) (int, error) {
		return runs.Exec(ctx, task.Job, task.Index, request, t)
	}, request.Stdin)
}

// target finds the task and who runs commands in it. Only who leads does.
func (s *server) target(ctx context.Context, name, index string) (runs Execer, t job.Task, err error) {
	backend := s.backend()
	if f, follows := backend.(Follower); follows {
		return nil, t, f.Elsewhere(ctx)
	}
	runs, takes := backend.(Execer)
	if !takes {
		return nil, t, NotYet("no scheduler leads now")
	}
	view, err := backend.Job(ctx, name)
	if err != nil {
		return nil, t, err
	}
	i := slices.IndexFunc(view.Tasks, func(t job.Task) bool { return strconv.Itoa(t.Index) == index })
	if i < 0 {
		return nil, t, Problemf(http.StatusNotFound, "job %s has no task %q: it has %d, counted from 0", name, index, len(view.Tasks))
	}
	if t = view.Tasks[i]; t.State != job.Running {
		return nil, t, Problemf(http.StatusConflict, "task %s is %s: commands run in the containers of tasks that are %s", t.ID, t.State, job.Running)
	}
	return runs, t, nil
}

// maxNoted bounds what the audit log gets of a command, in characters.
const maxNoted = 256

func noted(argv []string) string {
	text := []rune(fmt.Sprintf("%q", argv))
	return string(text[:min(len(text), maxNoted)])
}

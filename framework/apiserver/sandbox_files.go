package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/internal/execwire"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

// TaskFileReader reads files of tasks from their agents.
type TaskFileReader interface {
	// ReadTaskLog reads from a file of a task's output (stdout, stderr, or a
	// rotated one such as stdout.1) and returns the file's size. It returns
	// request.ErrNoLog, wrapped, if the task has not written the file.
	ReadTaskLog(ctx context.Context, t job.Task, file string, offset, length uint64) (data []byte, size uint64, err error)
	// FindSandbox returns the sandbox of a task. It returns request.ErrNoFile, wrapped, if its
	// agent has none.
	FindSandbox(ctx context.Context, t job.Task) (request.TaskSandbox, error)
}

// ArtifactReader lists files of ended tasks that were copied to the store.
type ArtifactReader interface {
	// ListArtifacts lists the artifacts of a job that were copied to the store.
	ListArtifacts(ctx context.Context, name string) (api.ArtifactList, error)
}

const (
	// maxCopiedBytes limits one upload into a sandbox.
	maxCopiedBytes = 64 << 30
	// maxWriteErrors is how much of a failed command's output is returned, in bytes.
	maxWriteErrors = 2 << 10
	// copyTimeout limits one upload into a sandbox in total.
	copyTimeout = 6 * time.Hour
)

// credentialFiles have the passwords of registries, which only the task itself may read.
var credentialFiles = []string{".dockercfg", ".docker/config.json"}

// sandboxPath returns the path that a request names.
func sandboxPath(r *http.Request) (string, error) {
	clean, err := api.CleanSandboxPath(r.URL.Query().Get("path"))
	if err != nil {
		return "", api.NewProblemf(http.StatusBadRequest, "%v", err)
	}
	return clean, nil
}

// findSandbox returns the sandbox of the request's task.
func findSandbox(reads *ReadBackend, r *http.Request) (t job.Task, sandbox request.TaskSandbox, err error) {
	id := r.PathValue("id")
	if t, err = reads.Jobs.GetTask(r.Context(), id); err != nil {
		return t, nil, err
	}
	if t.AgentID == "" {
		return t, nil, api.NewProblemf(http.StatusNotFound, "task %s is %s and has no sandbox yet", id, t.State).WithCode(api.CodeFileNotFound, id)
	}
	sandbox, err = reads.TaskFiles.FindSandbox(r.Context(), t)
	return t, sandbox, fileProblem(&t, ".", err)
}

// fileProblem converts an error about a file in the task's sandbox.
func fileProblem(t *job.Task, name string, err error) error {
	switch {
	case err == nil, errors.As(err, new(*api.Problem)):
		return err
	case errors.Is(err, request.ErrNoFile) && name == ".":
		return api.NewProblemf(http.StatusNotFound,
			"task %s is %s and its agent has no sandbox of it: Mesos removes sandboxes some time after the end of the task",
			t.ID, t.State).WithCode(api.CodeFileNotFound, t.ID)
	case errors.Is(err, request.ErrNoFile):
		return api.NewProblemf(http.StatusNotFound, "the sandbox of task %s has no file %q", t.ID, name).WithCode(api.CodeFileNotFound, name)
	}
	if errors.Is(err, request.ErrUnreadable) {
		return api.NewProblemf(http.StatusForbidden, "%q in the sandbox of task %s cannot be read: a link leads out of the sandbox, or it is no file", name, t.ID)
	}
	return api.NewProblemf(http.StatusBadGateway, "%v", err)
}

// describeFile returns the entry of a path: the agent lists only folders.
func describeFile(ctx context.Context, t *job.Task, sandbox request.TaskSandbox, name string) (api.SandboxFile, error) {
	if name == "." {
		return api.SandboxFile{Name: ".", Folder: true, Mode: "755"}, nil
	}
	list, err := sandbox.ListFiles(ctx, path.Dir(name))
	if err != nil {
		return api.SandboxFile{}, fileProblem(t, name, err)
	}
	i := slices.IndexFunc(list, func(f api.SandboxFile) bool { return f.Name == path.Base(name) })
	if i < 0 {
		return api.SandboxFile{}, fileProblem(t, name, request.ErrNoFile)
	}
	return list[i], nil
}

func (s *apiServer) handleListTaskFiles(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	name, err := sandboxPath(r)
	if err != nil {
		return err
	}
	t, sandbox, err := findSandbox(reads, r)
	if err != nil {
		return err
	}
	file, err := describeFile(r.Context(), &t, sandbox, name)
	if err != nil {
		return err
	}
	answer := api.SandboxList{Path: name, File: file, Files: []api.SandboxFile{}}
	if file.Folder {
		if answer.Files, err = sandbox.ListFiles(r.Context(), name); err != nil {
			return fileProblem(&t, name, err)
		}
	}
	apihttp.WriteJSON(w, http.StatusOK, answer)
	return nil
}

func (s *apiServer) handleListArtifacts(leader *LeaderBackend, w http.ResponseWriter, r *http.Request) error {
	list, err := leader.Artifacts.ListArtifacts(r.Context(), r.PathValue(runOfPath))
	if err != nil {
		return err
	}
	apihttp.WriteJSON(w, http.StatusOK, list)
	return nil
}

// handleReadTaskFile sends a file from a task's sandbox. It sends as many bytes as the
// file has at the start; if the file becomes shorter, it aborts the answer.
func (s *apiServer) handleReadTaskFile(reads *ReadBackend, w http.ResponseWriter, r *http.Request) error {
	name, err := sandboxPath(r)
	if err != nil {
		return err
	}
	offset := uint64(0)
	if text := r.URL.Query().Get("offset"); text != "" {
		if offset, err = strconv.ParseUint(text, 10, 63); err != nil {
			return api.NewProblemf(http.StatusBadRequest, "offset %q is not a number of bytes", text)
		}
	}
	if slices.Contains(credentialFiles, name) {
		return api.NewProblemf(http.StatusForbidden, "%s has credentials of registries: only the task can read it", name)
	}
	t, sandbox, err := findSandbox(reads, r)
	if err != nil {
		return err
	}
	file, err := describeFile(r.Context(), &t, sandbox, name)
	switch {
	case err != nil:
		return err
	case file.Folder || file.Special:
		return api.NewProblemf(http.StatusUnprocessableEntity, "%q is not a regular file: a folder is listed by GET /v1/tasks/{id}/files", name)
	}
	data, size, err := sandbox.ReadFile(r.Context(), name, offset, fileChunk)
	if err != nil {
		return fileProblem(&t, name, err)
	}
	if offset > size {
		return api.NewProblemf(http.StatusUnprocessableEntity, "offset %d is behind the end of %q, which has %d bytes", offset, name, size)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.FormatUint(size-offset, 10))
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	for left := size - offset; left > 0; {
		data = data[:min(uint64(len(data)), left)]
		if len(data) == 0 || writeAndFlush(out, w, data) != nil {
			panic(http.ErrAbortHandler) // the file became shorter, or the client has disconnected
		}
		offset, left = offset+uint64(len(data)), left-uint64(len(data))
		if left == 0 {
			break
		}
		if data, _, err = sandbox.ReadFile(r.Context(), name, offset, min(left, fileChunk)); err != nil {
			panic(http.ErrAbortHandler) // the client must not take a part for all of it
		}
	}
	return nil
}

// writeFileScript writes its input to the file $1, or in the folder $1 to the file $3,
// with the mode $2. The file appears when it is complete.
const writeFileScript = `set -e
cd "${MESOS_SANDBOX:-.}"
f=$1
case $f in */) mkdir -p "$f";; esac
if [ -d "$f" ]; then f=${f%/}/$3; else mkdir -p "$(dirname "$f")"; fi
if [ -d "$f" ]; then echo "$f is a folder" >&2; exit 1; fi
trap 'rm -f "$f.part"' EXIT
cat > "$f.part"
chmod "$2" "$f.part"
mv -f "$f.part" "$f"`

// writeFolderScript unpacks its input, a tar, into the folder $1.
const writeFolderScript = `set -e
cd "${MESOS_SANDBOX:-.}"
mkdir -p "$1"
exec tar -xof - -C "$1"`

// handleWriteTaskFile writes a file into the container of a running task.
func (s *apiServer) handleWriteTaskFile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	mode, name := q.Get("mode"), q.Get("name")
	if mode == "" {
		mode = "644"
	}
	if n, err := strconv.ParseUint(mode, 8, 32); err != nil || n > 0o777 {
		return api.NewProblemf(http.StatusBadRequest, "mode %q is not 0 to 777 in octal", mode)
	}
	if strings.ContainsAny(name, "/\x00") || name == ".." || name == "." {
		return api.NewProblemf(http.StatusBadRequest, "name %q is not the name of a file", name)
	}
	return s.writeByCommand(w, r, writeFileScript, mode, name)
}

// handleWriteTaskFiles unpacks a tar into the container of a running task.
func (s *apiServer) handleWriteTaskFiles(w http.ResponseWriter, r *http.Request) error {
	return s.writeByCommand(w, r, writeFolderScript)
}

// checkWrittenPath returns the path to write to. It may be absolute: the command runs with
// the rights of the task, like any other one.
func checkWrittenPath(target string) (string, error) {
	if path.IsAbs(target) && len(target) <= api.MaxSandboxPath && !strings.ContainsRune(target, 0) {
		return target, nil
	}
	clean, err := api.CleanSandboxPath(target)
	if err != nil {
		return "", api.NewProblemf(http.StatusBadRequest, "%v", err)
	}
	if strings.HasSuffix(target, "/") {
		clean += "/"
	}
	return "./" + clean, nil // it does not begin with a dash
}

// writeByCommand runs a script in the container of a running task with the request's body
// as its input and the path as its first argument.
func (s *apiServer) writeByCommand(w http.ResponseWriter, r *http.Request, script string, arguments ...string) error {
	if err := s.checkExecEnabled(); err != nil {
		return err
	}
	target, err := checkWrittenPath(r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	leader, err := s.leader(r.Context())
	if err != nil {
		return err
	}
	reads, err := s.reads(r.Context())
	if err != nil {
		return err
	}
	t, err := reads.Jobs.GetTask(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if t.State != job.Running {
		return api.NewProblemf(http.StatusConflict, "task %s is %s: files are written to tasks that are %s", t.ID,
			t.State, job.Running).WithCode(api.CodeTaskNotRunning, t.ID)
	}
	note := apihttp.AuditNoteOf(r.Context())
	note.Job, note.Task, note.Argv = t.Job, t.ID, auditArgv([]string{"write", target})
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	connection := http.NewResponseController(w)
	input := &uploadedInput{
		body: &progressReader{r.Body, connection, time.Now().Add(copyTimeout)}, left: maxCopiedBytes, cancel: cancel, ended: make(chan struct{}),
	}
	defer close(input.ended)
	stderr := &execwire.CommandMessages{Limit: maxWriteErrors}
	_ = connection.SetWriteDeadline(time.Now().Add(copyTimeout)) // test recorders do not support it
	argv := append([]string{"/bin/sh", "-c", script, "sh", target}, arguments...)
	code, err := leader.Streams.Exec(ctx, t.RunID().String(), t.Index, api.ExecRequest{Argv: argv, Stdin: true}, api.Terminal{
		Stdin:  input,
		Stdout: io.Discard,
		Stderr: stderr,
	})
	if cause := (*api.Problem)(nil); errors.As(context.Cause(ctx), &cause) {
		return cause
	}
	switch {
	case err != nil:
		return classifyStartError(argv[0], err)
	case code != 0:
		return writeProblem(r.Context(), reads, t.ID, target, code, stderr.String())
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// writeProblem returns why a command could not write a file: its messages, unless it was killed. The end of a task kills the command, which then prints
// nothing, and the scheduler may not have received the task's last status yet.
func writeProblem(ctx context.Context, reads *ReadBackend, task, target string, code int, why string) error {
	t, err := reads.Jobs.GetTask(ctx, task)
	switch {
	case err != nil:
		return err
	case t.ID != task || t.State != job.Running:
		return api.NewProblemf(http.StatusConflict, "write %s in task %s: the task ended before the file was complete", target, task).WithCode(api.CodeTaskNotRunning,
			task)
	case why == "" && code == 128+int(unix.SIGKILL):
		why = "the command was killed: the task ends, or its memory limit was exceeded"
	}
	return api.NewProblemf(http.StatusUnprocessableEntity, "write %s in task %s: exit status %d: %s", target, task, code, why)
}

// uploadedInput passes a body on to a command. If the body is cut off or too long, it
// cancels the command and does not report an end, which the command would take for the
// end of the file.
type uploadedInput struct {
	body io.Reader
	// left is how many more bytes the body may have.
	left int64
	// cancel ends the command, with the Problem for the client as its cause.
	cancel context.CancelCauseFunc
	// ended is closed when the command has ended. Read waits for it after an error.
	ended chan struct{}
}

func (u *uploadedInput) Read(b []byte) (int, error) {
	n, err := u.body.Read(b)
	u.left -= int64(n)
	switch {
	case u.left < 0:
		u.cancel(api.NewProblemf(http.StatusRequestEntityTooLarge, "the body is larger than %d GiB", maxCopiedBytes>>30))
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	default:
		u.cancel(api.NewProblemf(http.StatusBadRequest, "read the body: %v", err))
	}
	<-u.ended
	return 0, fmt.Errorf("upload: %w", io.ErrUnexpectedEOF)
}

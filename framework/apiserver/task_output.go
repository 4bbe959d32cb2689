package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/taskoutput"
	"mesos-gpu/internal/outputindex"
	"mesos-gpu/job"
)

const (
	// fileChunk is the size of a read of a file from an agent, in bytes.
	fileChunk = 128 << 10
	// minLogPoll is the first polling interval of followed output: many tasks end soon. Intervals double up to logPoll.
	minLogPoll = 20 * time.Millisecond
	logPoll    = 300 * time.Millisecond
)

// StoredOutputReader reads the stored end of the output of tasks whose sandboxes are gone.
type StoredOutputReader interface {
	// ReadOutput returns nil if no output of the attempt is stored.
	ReadOutput(ctx context.Context, task string) (*taskoutput.Tail, error)
}

// streamWriteTimeout limits how long a client may take to read one write of a stream.
const streamWriteTimeout = 30 * time.Second

// outputRequest is a request for the output of a task.
type outputRequest struct {
	// id is the task's.
	id string
	taskoutput.Selection
	// follow continues until the task has ended.
	follow bool
	// plain returns the bytes of the one selected stream only.
	plain bool
}

// parseStreams returns the request in the parameters that both forms of it have.
func parseStreams(r *http.Request, v url.Values) (q outputRequest, err error) {
	q = outputRequest{id: r.PathValue("id"), Selection: taskoutput.Selection{Streams: [2]bool{true, true}}}
	switch v.Get("stream") {
	case "":
	case "stdout":
		q.Streams[outputindex.Stderr] = false
	case "stderr":
		q.Streams[outputindex.Stdout] = false
	default:
		return q, api.NewProblemf(http.StatusBadRequest, "stream %q is neither stdout nor stderr", v.Get("stream"))
	}
	q.follow, err = parseBoolParameter(v, "follow")
	return q, err
}

// parseOutputRequest returns the request for ordered output in the parameters of r.
func parseOutputRequest(r *http.Request) (q outputRequest, err error) {
	v := r.URL.Query()
	if q, err = parseStreams(r, v); err != nil {
		return q, err
	}
	if text := v.Get("since"); text != "" {
		if q.Since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return q, api.NewProblemf(http.StatusBadRequest, "since %q is not a time such as 2026-03-01T15:00:00Z", text)
		}
	}
	if text := v.Get("tail"); text != "" {
		if q.TailLines, err = strconv.Atoi(text); err != nil || q.TailLines < 1 {
			return q, api.NewProblemf(http.StatusBadRequest, "tail %q is not a number of lines above 0", text)
		}
	}
	if text := v.Get("after"); text != "" {
		out, errText, _ := strings.Cut(text, ",")
		q.After = new(outputindex.Positions)
		var err1, err2 error
		q.After[outputindex.Stdout], err1 = strconv.ParseInt(out, 10, 64)
		q.After[outputindex.Stderr], err2 = strconv.ParseInt(errText, 10, 64)
		if err1 != nil || err2 != nil || q.After[outputindex.Stdout] < 0 || q.After[outputindex.Stderr] < 0 {
			return q, api.NewProblemf(http.StatusBadRequest, "after %q is not the position of an earlier answer, such as 120,30", text)
		}
	}
	return q, nil
}

// parseLogRequest returns the request for the bytes of one stream in the parameters of r.
func parseLogRequest(r *http.Request) (q outputRequest, err error) {
	v := r.URL.Query()
	if q, err = parseStreams(r, v); err != nil {
		return q, err
	}
	q.plain = true
	if v.Get("stream") == "" {
		q.Streams[outputindex.Stderr] = false
	}
	if text := v.Get("offset"); text != "" {
		if q.Offset, err = strconv.ParseInt(text, 10, 64); err != nil || q.Offset < 0 {
			return q, api.NewProblemf(http.StatusBadRequest, "offset %q is not a number of bytes", text)
		}
	}
	if text := v.Get("tail"); text != "" {
		if q.TailBytes, err = strconv.ParseInt(text, 10, 64); err != nil || q.TailBytes < 0 || q.Offset > 0 {
			return q, api.NewProblemf(http.StatusBadRequest, "tail %q is not a number of bytes, or there is an offset too", text)
		}
	}
	return q, nil
}

// handleTaskOutput writes both output streams of a task in the order in which the task has
// written them, as lines of JSON.
func (s *apiServer) handleTaskOutput(w http.ResponseWriter, r *http.Request) error {
	q, err := parseOutputRequest(r)
	if err != nil {
		return err
	}
	return s.writeTaskOutput(w, r, &q)
}

// handleTaskLog writes the bytes of one output stream of a task.
func (s *apiServer) handleTaskLog(w http.ResponseWriter, r *http.Request) error {
	q, err := parseLogRequest(r)
	if err != nil {
		return err
	}
	return s.writeTaskOutput(w, r, &q)
}

// writeTaskOutput copies the output of a task from its agent. With follow, the answer ends when
// the task has ended and all of its output is read.
func (s *apiServer) writeTaskOutput(w http.ResponseWriter, r *http.Request, q *outputRequest) error {
	var task job.Task
	live := taskoutput.NewReader(func(file string, offset, length uint64) ([]byte, uint64, error) {
		reads, err := s.reads(r.Context())
		if err != nil {
			return nil, 0, err
		}
		return reads.TaskFiles.ReadTaskLog(r.Context(), task, file, offset, length)
	}, q.Selection)
	answer := &outputAnswer{w: w, request: q, output: live}
	pause := minLogPoll
	for {
		reads, err := s.reads(r.Context())
		if err == nil {
			task, err = reads.Jobs.GetTask(r.Context(), q.id)
		}
		if gone := (*api.Problem)(nil); answer.started && errors.As(err, &gone) && gone.Status == http.StatusNotFound {
			return answer.finish() // the task was lost, and its next attempt has another id
		}
		if err != nil {
			return abortIfStarted(answer.started, err)
		}
		ended := !task.State.IsLive() // read before the index, which then has all
		parts, err := []api.OutputPart(nil), request.ErrNoLog
		if hasLog(&task) {
			parts, err = answer.output.ReadParts()
		}
		if err == nil && len(parts) == 0 && ended {
			parts, err = answer.output.ReadRest()
		}
		if cause := context.Cause(r.Context()); cause != nil {
			return abortIfStarted(answer.started, api.NewProblemf(http.StatusServiceUnavailable, "the request ended: %v", cause))
		}
		if ended && !answer.started && answer.stored == nil && isSandboxGone(err) {
			if found, err := answer.openStored(r.Context(), reads.StoredOutput, &task, err); err != nil {
				return api.NewProblemf(http.StatusBadGateway, "%v", err)
			} else if found {
				continue
			}
		}
		wait := q.follow && !ended
		none := errors.Is(err, request.ErrNoLog) && !answer.output.FoundOutput() // later, a missing file is an error
		switch {
		case none && !wait && !answer.started:
			return noLogProblem(task, q.FirstStream())
		case err != nil && !none && (!wait || !answer.started):
			return abortIfStarted(answer.started, api.NewProblemf(http.StatusBadGateway, "%v", err))
		}
		if err := answer.write(parts); err != nil {
			return nil // the client has disconnected
		}
		if len(parts) > 0 {
			pause = minLogPoll
			continue
		}
		if !wait {
			return answer.finish()
		}
		waitForLog(r.Context(), &pause)
	}
}

// outputAnswer writes an answer: lines of JSON, or the bytes alone. started is set once the header is written.
type outputAnswer struct {
	w       http.ResponseWriter
	request *outputRequest
	output  *taskoutput.Reader
	// stored describes output that is in the store, nil if it is read from the agent.
	stored  *api.StoredOutput
	started bool
	// wrote is set once there was any output.
	wrote bool
}

// openStored continues with the stored output of a task whose sandbox cannot be read. found is false if there is none.
func (a *outputAnswer) openStored(ctx context.Context, store StoredOutputReader, t *job.Task, gone error) (found bool, err error) {
	if store == nil {
		return false, nil
	}
	tail, err := store.ReadOutput(ctx, t.ID)
	if err != nil || tail == nil {
		return false, err
	}
	a.output = tail.NewReader(a.request.Selection)
	described := tail.Describe(a.request.Streams)
	described.AgentUnreachable = !errors.Is(gone, request.ErrNoLog)
	a.stored = &described
	return true, nil
}

// write sends parts at once. The first call, which may be without any, writes the header.
func (a *outputAnswer) write(parts []api.OutputPart) error {
	if !a.started {
		a.started = true
		kind := "application/x-ndjson"
		if a.request.plain {
			kind = "text/plain; charset=utf-8"
			a.w.Header().Set("Trailer", api.NextOffset)
		}
		a.w.Header().Set("Content-Type", kind)
		a.w.Header().Set("X-Content-Type-Options", "nosniff")
		if a.stored != nil {
			a.w.Header().Set(api.StoredOutputMissing, strconv.FormatInt(a.stored.MissingBytes, 10))
			if a.request.After == nil {
				parts = append([]api.OutputPart{{Stored: a.stored}}, parts...)
			}
		}
		a.w.WriteHeader(http.StatusOK)
	}
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	for i := range parts {
		if a.request.plain {
			if parts[i].Stored != nil {
				continue // the header says so
			}
			a.abortIfLost(parts[i].Lost)
			text.Write(parts[i].Output())
			a.wrote = true
		} else if err := lines.Encode(&parts[i]); err != nil {
			return err
		}
	}
	return writeAndFlush(http.NewResponseController(a.w), a.w, text.Bytes())
}

// abortIfLost aborts an answer of bytes within which output is missing. It may start with the oldest file that is left.
func (a *outputAnswer) abortIfLost(lost bool) {
	if lost && a.wrote {
		panic(http.ErrAbortHandler)
	}
}

// finish writes the part, or the trailer, without which an answer was cut off.
func (a *outputAnswer) finish() error {
	last := a.output.LastPart()
	if !a.request.plain {
		_ = a.write([]api.OutputPart{last})
		return nil
	}
	a.abortIfLost(last.Lost)
	a.w.Header().Set(api.NextOffset, strconv.FormatInt(a.output.NextOffset(), 10))
	return nil
}

// waitForLog waits before the next read, or until ctx ends, and doubles the pause. The caller checks ctx.
func waitForLog(ctx context.Context, pause *time.Duration) {
	select {
	case <-time.After(*pause):
	case <-ctx.Done():
	}
	*pause = min(2**pause, logPoll)
}

// hasLog reports whether the task's output is in its sandbox. Before the task starts, the
// file there belongs to the executor and may be replaced.
func hasLog(t *job.Task) bool {
	return t.AgentID != "" && (!t.Started.IsZero() || !t.State.IsLive())
}

// isSandboxGone reports whether an error of reading output means that the agent does not have the sandbox, or that there is
// no connection to it.
func isSandboxGone(err error) bool {
	return errors.Is(err, request.ErrNoLog) || errors.As(err, new(*url.Error))
}

// noLogProblem returns the Problem of a task that has not written the stream, or whose agent has removed it.
func noLogProblem(t job.Task, stream outputindex.Stream) error {
	if t.State.IsLive() && !hasLog(&t) {
		return api.NewProblemf(http.StatusNotFound, "task %s is %s and has no %s yet", t.ID, t.State, stream).WithCode(api.CodeLogNotFound, t.ID)
	}
	return api.NewProblemf(http.StatusNotFound, "task %s is %s and its agent has no %s of it", t.ID, t.State, stream).WithCode(api.CodeLogNotFound, t.ID)
}

// abortIfStarted returns err, or aborts a response that has started, so that the client
// does not mistake partial output for all of it.
func abortIfStarted(started bool, err error) error {
	if started {
		panic(http.ErrAbortHandler)
	}
	return err
}

// writeAndFlush writes data and sends it immediately.
func writeAndFlush(out *http.ResponseController, w http.ResponseWriter, data []byte) error {
	_ = out.SetWriteDeadline(time.Now().Add(streamWriteTimeout)) // test recorders do not support it
	if _, err := w.Write(data); err != nil {
		return err
	}
	return out.Flush()
}

package apiserver

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/job"
)

const (
	// logChunk is the size of a read from an agent, in bytes.
	logChunk = 128 << 10
	// minLogPoll is the first polling interval of a followed log: many tasks end soon. Intervals double up to logPoll.
	minLogPoll = 20 * time.Millisecond
	logPoll    = 300 * time.Millisecond
)

// streamWriteTimeout limits how long a client may take to read one write of a stream.
const streamWriteTimeout = 30 * time.Second

// logRequest is a request for one output stream of a task.
type logRequest struct {
	// id is the task's, stream is stdout or stderr.
	id, stream string
	// offset is where to start in the current file. With tailBytes above 0 the answer starts so many bytes before the
	// end.
	offset    uint64
	tailBytes uint64
	// follow continues until the task has ended.
	follow bool
	// singleFile ends the answer where another file follows.
	singleFile bool
	// preceding contains the bytes that the client has read before offset, to detect that the file was rotated.
	preceding []byte
}

// parseLogRequest returns the request in the parameters and headers of r. A client that sends api.LogPreceding continues
// an earlier answer, and gets one file with each answer.
func parseLogRequest(r *http.Request) (q logRequest, err error) {
	v := r.URL.Query()
	q = logRequest{id: r.PathValue("id"), stream: v.Get("stream")}
	if q.stream == "" {
		q.stream = "stdout"
	}
	if q.stream != "stdout" && q.stream != "stderr" {
		return q, api.NewProblemf(http.StatusBadRequest, "stream %q is neither stdout nor stderr", q.stream)
	}
	if text := v.Get("offset"); text != "" {
		if q.offset, err = strconv.ParseUint(text, 10, 63); err != nil {
			return q, api.NewProblemf(http.StatusBadRequest, "offset %q is not a number of bytes", text)
		}
	}
	if text := v.Get("tail"); text != "" {
		if q.tailBytes, err = strconv.ParseUint(text, 10, 63); err != nil || q.offset > 0 {
			return q, api.NewProblemf(http.StatusBadRequest, "tail %q is not a number of bytes, or there is an offset too", text)
		}
	}
	if q.follow, err = parseBoolParameter(v, "follow"); err != nil {
		return q, err
	}
	if text, ok := r.Header[api.LogPreceding]; ok {
		q.singleFile = true
		if q.preceding, err = base64.StdEncoding.DecodeString(text[0]); err != nil || len(q.preceding) > api.MaxPreceding || uint64(len(q.preceding)) > q.offset {
			return q, api.NewProblemf(http.StatusBadRequest, "%s is not base64 of at most %d bytes before offset %d", api.LogPreceding, api.MaxPreceding, q.offset)
		}
	}
	return q, nil
}

// handleTaskLog copies a task's output from its agent: from the oldest file on, or from
// the last bytes of the current file. With follow, the response ends when the task has
// ended and all of its output is read.
func (s *apiServer) handleTaskLog(w http.ResponseWriter, r *http.Request) error {
	q, err := parseLogRequest(r)
	if err != nil {
		return err
	}
	var task job.Task
	files := &rotatedLog{
		stream:       q.stream,
		singleFile:   q.singleFile,
		position:     logPosition{0, q.offset, q.preceding},
		unread:       q.offset == 0,
		answerOffset: q.offset,
		tailBytes:    q.tailBytes,
		readFile: func(file string, offset, length uint64) ([]byte, uint64, error) {
			reads, err := s.reads(r.Context())
			if err != nil {
				return nil, 0, err
			}
			return reads.TaskFiles.ReadTaskLog(r.Context(), task, file, offset, length)
		},
	}
	out := http.NewResponseController(w)
	got := false // whether any output was read
	pause := minLogPoll
	for {
		reads, err := s.reads(r.Context())
		if err == nil {
			task, err = reads.Jobs.GetTask(r.Context(), q.id)
		}
		if gone := (*api.Problem)(nil); files.answerStarted && errors.As(err, &gone) && gone.Status == http.StatusNotFound {
			s.finishLogAnswer(w, files, false) // the task was lost, and its next attempt has another id
			return nil
		}
		if err != nil {
			return abortIfStarted(files.answerStarted, err)
		}
		// Read the state before the file, so that the file has the last output of an ended task.
		ended := !task.State.IsLive()
		var data []byte
		if hasLog(&task) {
			data, err = files.readNext()
		} else {
			err = request.ErrNoLog
		}
		if err := context.Cause(r.Context()); err != nil {
			return abortIfStarted(files.answerStarted, api.NewProblemf(http.StatusServiceUnavailable, "the request ended: %v", err))
		}
		wait := q.follow && !ended
		none := errors.Is(err, request.ErrNoLog) && !got // after the first output a missing file is an error
		switch {
		case errors.Is(err, errOutputLost) && q.singleFile && !files.answerStarted:
			w.Header().Set(api.LogOutputLost, "true")
			files.unread = true
			continue
		case errors.Is(err, errFileEnded), errors.Is(err, errOutputLost) && q.singleFile:
			s.finishLogAnswer(w, files, true)
			return nil
		case errors.Is(err, errRotating):
			waitForLog(r.Context(), &pause)
			continue
		case none && !wait && !files.answerStarted:
			return noLogProblem(task, q.stream)
		case err != nil && !none && (!wait || !files.answerStarted || errors.Is(err, errOutputLost)):
			return abortIfStarted(files.answerStarted, api.NewProblemf(http.StatusBadGateway, "%v", err))
		}
		startLogAnswer(w, files)
		got = got || len(data) > 0
		if err := writeAndFlush(out, w, data); err != nil {
			return nil // the client has disconnected
		}
		if len(data) > 0 {
			pause = minLogPoll
			continue
		}
		if !wait {
			s.finishLogAnswer(w, files, false)
			return nil
		}
		waitForLog(r.Context(), &pause)
	}
}

// waitForLog waits before the next read, or until ctx ends, and doubles the pause. The caller checks ctx.
func waitForLog(ctx context.Context, pause *time.Duration) {
	select {
	case <-time.After(*pause):
	case <-ctx.Done():
	}
	*pause = min(2**pause, logPoll)
}

// startLogAnswer writes the header, once.
func startLogAnswer(w http.ResponseWriter, files *rotatedLog) {
	if files.answerStarted {
		return
	}
	files.answerStarted = true
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Trailer", api.NextOffset+", "+api.LogRotated)
	w.Header().Set(api.LogOffset, strconv.FormatUint(files.answerOffset, 10))
	w.WriteHeader(http.StatusOK)
}

// finishLogAnswer sets the trailers that mark a complete response, and whether another
// file follows. A response without them was truncated, and the client may request the rest.
func (s *apiServer) finishLogAnswer(w http.ResponseWriter, files *rotatedLog, rotated bool) {
	w.Header().Set(api.NextOffset, strconv.FormatUint(files.position.offset, 10))
	if rotated {
		w.Header().Set(api.LogRotated, "true")
	}
}

// hasLog reports whether the task's output is in its sandbox. Before the task starts, the
// file there belongs to the executor and may be replaced.
func hasLog(t *job.Task) bool {
	return t.AgentID != "" && (!t.Started.IsZero() || !t.State.IsLive())
}

// noLogProblem returns the Problem of a task that has not written the stream, or whose agent has removed it.
func noLogProblem(t job.Task, stream string) error {
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

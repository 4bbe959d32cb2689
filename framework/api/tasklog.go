package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"mesos-gpu/job"
)

const (
	// logChunk is how much is read from an agent at a time.
	logChunk = 128 << 10
	// logPoll is how often a followed log is asked for more.
	logPoll = 300 * time.Millisecond
	// NextOffset is the trailer that says where the answer ended.
	NextOffset = "X-Next-Offset"
)

// writeWait is how long a client may take to read what a stream sends.
const writeWait = 30 * time.Second

type logRequest struct {
	id, stream string
	offset     uint64
	follow     bool
}

func parseLogRequest(r *http.Request) (q logRequest, err error) {
	v := r.URL.Query()
	q = logRequest{id: r.PathValue("id"), stream: v.Get("stream")}
	if q.stream == "" {
		q.stream = "stdout"
	}
	if q.stream != "stdout" && q.stream != "stderr" {
		return q, Problemf(http.StatusBadRequest, "stream %q is neither stdout nor stderr", q.stream)
	}
	if text := v.Get("offset"); text != "" {
		if q.offset, err = strconv.ParseUint(text, 10, 63); err != nil {
			return q, Problemf(http.StatusBadRequest, "offset %q is no number of bytes", text)
		}
	}
	if text := v.Get("follow"); text != "" {
		if q.follow, err = strconv.ParseBool(text); err != nil {
			return q, Problemf(http.StatusBadRequest, "follow %q is neither true nor false", text)
		}
	}
	return q, nil
}

// taskLog copies a task's output from its agent. Followed, it ends when the
// task has ended and all of it was read.
func (s *server) taskLog(w http.ResponseWriter, r *http.Request) error {
	q, err := parseLogRequest(r)
	if err != nil {
		return err
	}
	out := http.NewResponseController(w)
	started, got := false, false // the answer; any of the log
	for {
		task, err := s.backend().Task(r.Context(), q.id)
		if gone := (*Problem)(nil); started && errors.As(err, &gone) && gone.Status == http.StatusNotFound {
			s.endLog(w, q.offset) // lost, and tried again under another id
			return nil
		}
		if err != nil {
			return stop(started, err)
		}
		// Asked before the file is read: what the task wrote last is there.
		ended := !task.State.Live()
		var data []byte
		if hasLog(&task) {
			data, err = s.backend().ReadLog(r.Context(), task, q.stream, q.offset, logChunk)
		} else {
			err = ErrNoLog
		}
		if err := context.Cause(r.Context()); err != nil {
			return stop(started, Problemf(http.StatusServiceUnavailable, "the request ended: %v", err))
		}
		wait := q.follow && !ended
		none := errors.Is(err, ErrNoLog) && !got // one that was there is lost
		switch {
		case none && !wait && !started:
			return noLog(task, q.stream)
		case err != nil && !none && (!wait || !started):
			return stop(started, Problemf(http.StatusBadGateway, "%v", err))
		}
		if !started {
			started = true
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Trailer", NextOffset)
			w.WriteHeader(http.StatusOK)
		}
		q.offset += uint64(len(data))
		got = got || len(data) > 0
		if err := push(out, w, data); err != nil {
			return nil // the client went away
		}
		if len(data) > 0 {
			continue
		}
		if !wait {
			s.endLog(w, q.offset)
			return nil
		}
		select {
		case <-time.After(logPoll):
		case <-r.Context().Done(): // which the next round tells
		}
	}
}

// endLog says that the answer is whole. One without this trailer was cut off,
// and the reader may ask for the rest.
func (s *server) endLog(w http.ResponseWriter, offset uint64) {
	w.Header().Set(NextOffset, strconv.FormatUint(offset, 10))
}

// hasLog reports whether the task's output is in its sandbox. Before it runs
// the file there is the executor's, and may give way to the task's own.
func hasLog(t *job.Task) bool {
	return t.AgentID != "" && (!t.Started.IsZero() || !t.State.Live())
}

func noLog(t job.Task, stream string) error {
	if t.State.Live() && !hasLog(&t) {
		return Problemf(http.StatusNotFound, "task %s is %s and has no %s yet", t.ID, t.State, stream)
	}
	return Problemf(http.StatusNotFound, "task %s is %s and its agent has no %s of it", t.ID, t.State, stream)
}

// stop reports an error, or breaks an answer that has begun: the client must
// not take half a log for a whole one.
func stop(started bool, err error) error {
	if started {
		panic(http.ErrAbortHandler)
	}
	return err
}

// push sends what there is, now.
func push(out *http.ResponseController, w http.ResponseWriter, data []byte) error {
	_ = out.SetWriteDeadline(time.Now().Add(writeWait)) // a recorder in a test has none
	if _, err := w.Write(data); err != nil {
		return err
	}
	return out.Flush()
}

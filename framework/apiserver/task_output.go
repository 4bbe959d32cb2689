package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/outputindex"
	"mesos-gpu/job"
)

// outputRequest is a request for both output streams of a task in order.
type outputRequest struct {
	// id is the task's. selected has the streams to return.
	id       string
	selected [2]bool
	// since omits the lines that were written before; zero omits none.
	since time.Time
	// tail returns the last lines only, 0 all of them. It has no effect together with after.
	tail int
	// follow continues until the task has ended.
	follow bool
	// after is the end of what the client has, nil if it has nothing.
	after *outputindex.Positions
}

// parseOutputRequest returns the request in the parameters of r.
func parseOutputRequest(r *http.Request) (q outputRequest, err error) {
	v := r.URL.Query()
	q = outputRequest{id: r.PathValue("id"), selected: [2]bool{true, true}}
	switch v.Get("stream") {
	case "":
	case "stdout":
		q.selected[outputindex.Stderr] = false
	case "stderr":
		q.selected[outputindex.Stdout] = false
	default:
		return q, api.NewProblemf(http.StatusBadRequest, "stream %q is neither stdout nor stderr", v.Get("stream"))
	}
	if text := v.Get("since"); text != "" {
		if q.since, err = time.Parse(time.RFC3339Nano, text); err != nil {
			return q, api.NewProblemf(http.StatusBadRequest, "since %q is not a time such as 2026-03-01T15:00:00Z", text)
		}
	}
	if text := v.Get("tail"); text != "" {
		if q.tail, err = strconv.Atoi(text); err != nil || q.tail < 1 {
			return q, api.NewProblemf(http.StatusBadRequest, "tail %q is not a number of lines above 0", text)
		}
	}
	if q.follow, err = parseBoolParameter(v, "follow"); err != nil {
		return q, err
	}
	if text := v.Get("after"); text != "" {
		out, errText, _ := strings.Cut(text, ",")
		q.after = new(outputindex.Positions)
		var err1, err2 error
		q.after[outputindex.Stdout], err1 = strconv.ParseInt(out, 10, 64)
		q.after[outputindex.Stderr], err2 = strconv.ParseInt(errText, 10, 64)
		if err1 != nil || err2 != nil || q.after[outputindex.Stdout] < 0 || q.after[outputindex.Stderr] < 0 {
			return q, api.NewProblemf(http.StatusBadRequest, "after %q is not the position of an earlier answer, such as 120,30", text)
		}
	}
	return q, nil
}

// handleTaskOutput writes both output streams of a task in the order in which the task has
// written them, as lines of JSON. With follow, the answer ends when the task has ended and
// all of its output is read. A task without an index of its output is not found: an executor
// of an earlier version ran it, or it never started.
func (s *apiServer) handleTaskOutput(w http.ResponseWriter, r *http.Request) error {
	q, err := parseOutputRequest(r)
	if err != nil {
		return err
	}
	var task job.Task
	output := &orderedOutput{
		selected: q.selected,
		readFile: func(file string, offset, length uint64) ([]byte, uint64, error) {
			reads, err := s.reads(r.Context())
			if err != nil {
				return nil, 0, err
			}
			return reads.TaskFiles.ReadTaskLog(r.Context(), task, file, offset, length)
		},
	}
	answer := &outputAnswer{w: w}
	positioned := false
	pause := minLogPoll
	for {
		reads, err := s.reads(r.Context())
		if err == nil {
			task, err = reads.Jobs.GetTask(r.Context(), q.id)
		}
		if gone := (*api.Problem)(nil); answer.started && errors.As(err, &gone) && gone.Status == http.StatusNotFound {
			return answer.finish(output) // the task was lost, and its next attempt has another id
		}
		if err != nil {
			return abortIfStarted(answer.started, err)
		}
		ended := !task.State.IsLive() // read before the index, which then has all
		parts, err := []api.OutputPart(nil), request.ErrNoLog
		if hasLog(&task) {
			parts, err = readOutput(output, &q, &positioned)
		}
		if err == nil && len(parts) == 0 && ended {
			parts, err = output.readRest()
		}
		if cause := context.Cause(r.Context()); cause != nil {
			return abortIfStarted(answer.started, api.NewProblemf(http.StatusServiceUnavailable, "the request ended: %v", cause))
		}
		wait := q.follow && !ended
		switch {
		case errors.Is(err, request.ErrNoLog) && !answer.started:
			return api.NewProblemf(http.StatusNotFound, "task %s is %s and its agent has no times of its output", task.ID, task.State).WithCode(api.CodeLogNotFound,
				task.ID)
		case err != nil && (!wait || !answer.started):
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
			return answer.finish(output)
		}
		waitForLog(r.Context(), &pause)
	}
}

// readOutput returns the next parts. The first call finds the position.
func readOutput(output *orderedOutput, q *outputRequest, positioned *bool) ([]api.OutputPart, error) {
	if *positioned {
		return output.readParts()
	}
	if err := output.refreshIndex(); err != nil {
		return nil, err
	}
	if q.after != nil {
		output.skipTo(*q.after)
	}
	if !q.since.IsZero() {
		if err := output.skipBefore(q.since); err != nil {
			return nil, err
		}
	}
	*positioned = true
	if q.tail > 0 && q.after == nil {
		return output.lastLines(q.tail)
	}
	return output.readParts()
}

// outputAnswer writes the lines of an answer. started is set once the header is written.
type outputAnswer struct {
	w       http.ResponseWriter
	started bool
}

// write sends parts at once. The first call, which may be without any, writes the header.
func (a *outputAnswer) write(parts []api.OutputPart) error {
	if !a.started {
		a.started = true
		a.w.Header().Set("Content-Type", "application/x-ndjson")
		a.w.Header().Set("X-Content-Type-Options", "nosniff")
		a.w.WriteHeader(http.StatusOK)
	}
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false)
	for i := range parts {
		if err := lines.Encode(&parts[i]); err != nil {
			return err
		}
	}
	return writeAndFlush(http.NewResponseController(a.w), a.w, text.Bytes())
}

// finish writes the part without which an answer was cut off.
func (a *outputAnswer) finish(output *orderedOutput) error {
	_ = a.write([]api.OutputPart{{Complete: true, Lost: output.lost, After: formatPositions(output.next)}})
	return nil
}

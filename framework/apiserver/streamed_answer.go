package apiserver

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"mesos-gpu/framework/api"
)

const (
	// answerBuffer is the size of one write of a list, in bytes.
	answerBuffer = 64 << 10
	// answerWriteTimeout limits how long a client may take to read one write of a list, and
	// answerTimeout how long it may take to read the whole.
	answerWriteTimeout, answerTimeout = 10 * time.Second, time.Minute
	// jobsPerRead, tasksPerRead and queuedPerRead limit how much of a list is in memory.
	jobsPerRead, tasksPerRead, queuedPerRead = 500, 2000, 1000
)

// streamedAnswer writes a JSON document in parts, so that an answer of any length occupies
// one buffer. After the first failed write it discards everything.
type streamedAnswer struct {
	w        http.ResponseWriter
	buffered *bufio.Writer
	// end is when the client must have read all of it.
	end time.Time
	// started is true once something is written, after which no Problem can be sent.
	started bool
	// err is the error of the first write that failed.
	err error
}

// newStreamedAnswer returns an answer that has answerTimeout from now on.
func newStreamedAnswer(w http.ResponseWriter) *streamedAnswer {
	a := &streamedAnswer{w: w, end: time.Now().Add(answerTimeout)}
	a.buffered = bufio.NewWriterSize(deadlineWriter{a}, answerBuffer)
	return a
}

// deadlineWriter sets the write deadline before each write.
type deadlineWriter struct{ *streamedAnswer }

func (w deadlineWriter) Write(data []byte) (int, error) {
	until := time.Now().Add(answerWriteTimeout)
	if until.After(w.end) {
		until = w.end
	}
	_ = http.NewResponseController(w.w).SetWriteDeadline(until) // test recorders do not support it
	return w.w.Write(data)
}

// start writes the header, once.
func (a *streamedAnswer) start(status int) {
	if a.started {
		return
	}
	a.started = true
	a.w.Header().Set("Content-Type", "application/json")
	a.w.WriteHeader(status)
}

// text writes a part of the document as it is.
func (a *streamedAnswer) text(text string) {
	if a.err == nil {
		_, a.err = a.buffered.WriteString(text)
	}
}

// value writes the JSON of v.
func (a *streamedAnswer) value(v any) {
	if a.err != nil {
		return
	}
	var data []byte
	if data, a.err = json.Marshal(v); a.err == nil {
		_, a.err = a.buffered.Write(data)
	}
}

// finish ends the document and sends what is buffered.
func (a *streamedAnswer) finish() {
	a.text("\n")
	if a.err == nil {
		a.err = a.buffered.Flush()
	}
}

// jobWithoutTasks is a job whose tasks are written separately.
type jobWithoutTasks struct {
	*api.JobView
	Tasks *struct{} `json:"tasks,omitempty"` // hides JobView.Tasks
}

// job writes a job with all of its tasks. It reads the omitted ones in parts, each as it is at
// that time. It writes only the public fields of a job whose output the requester may not read.
func (a *streamedAnswer) job(ctx context.Context, reads *ReadBackend, view *api.JobView) error {
	view = readableView(ctx, reads.Jobs, view)
	if view.OmittedTasks == 0 {
		a.value(view)
		return nil
	}
	head, err := json.Marshal(jobWithoutTasks{JobView: view})
	if err != nil {
		return err
	}
	a.text(string(head[:len(head)-1]) + `,"tasks":[`)
	tasks := view.Tasks
	for at := 0; len(tasks) > 0 && a.err == nil; {
		for i := range tasks {
			if at+i > 0 {
				a.text(",")
			}
			a.value(&tasks[i])
		}
		at += len(tasks)
		if tasks, err = reads.Jobs.ListTasks(ctx, view.RunID().String(), view.Submitted, at, tasksPerRead); err != nil {
			return err
		}
		tasks = readableTasks(ctx, reads.Jobs, view, tasks)
	}
	a.text("]}")
	return nil
}

// writeJob writes one job.
func (s *apiServer) writeJob(w http.ResponseWriter, r *http.Request, status int, view *api.JobView) error {
	reads, err := s.reads(r.Context())
	if err != nil {
		return err
	}
	a := newStreamedAnswer(w)
	a.start(status)
	if err := a.job(r.Context(), reads, view); err != nil {
		return abortIfStarted(true, err)
	}
	a.finish()
	return nil
}

// writeList writes {"jobs": [...], "next": ...} from pages that read returns. It reads the
// next page when the client has read the one before, and stops after limit entries; 0 means
// all.
func writeList[T any](
	w http.ResponseWriter, p api.PageRequest, perRead int, read func(api.PageRequest) ([]T, string, error),
	write func(*streamedAnswer, *T) error,
) error {
	a, written := newStreamedAnswer(w), 0
	for {
		part := api.PageRequest{Limit: perRead, After: p.After}
		if p.Limit > 0 {
			part.Limit = min(perRead, p.Limit-written)
		}
		entries, next, err := read(part)
		if err != nil {
			return abortIfStarted(a.started, err)
		}
		if !a.started {
			a.start(http.StatusOK)
			a.text(`{"jobs":[`)
		}
		for i := range entries {
			if written > 0 {
				a.text(",")
			}
			if err := write(a, &entries[i]); err != nil {
				return abortIfStarted(true, err)
			}
			written++
		}
		if a.err != nil {
			return nil // the client has disconnected
		}
		p.After = next
		if next == "" || next == part.After || len(entries) == 0 || p.Limit > 0 && written >= p.Limit {
			break
		}
	}
	a.text("]")
	if p.After != "" {
		a.text(`,"next":`)
		a.value(p.After)
	}
	a.text("}")
	a.finish()
	return nil
}

package client

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"mesos-gpu/framework/api"
)

// LogOptions selects the part of a task's output to read.
type LogOptions struct {
	// Stream is stdout or stderr; "" means stdout.
	Stream string
	// Offset is an offset in the current file of the stream. 0 is the start of the oldest
	// file that is left.
	Offset int64
	// TailLines is the number of existing lines to read, from the end; 0 is all.
	TailLines int
	// TailBytes starts so many bytes before the end of the current file; 0 reads from
	// Offset. It has no effect with TailLines.
	TailBytes int64
	// Follow waits for further output until the task has ended.
	Follow bool
	// OnCaughtUp, if not nil, is called with Follow when the output that existed at the start
	// has been read, before any later output is returned.
	OnCaughtUp func()
	// OnOutputLost, if not nil, is called if log rotation removed output before it was
	// read.
	OnOutputLost func()
}

// OpenTaskLog returns a task's output; the caller must close it. The reader resumes after
// the scheduler restarts or another one takes over. A read error other than io.EOF means
// that the output is incomplete.
func (c *Client) OpenTaskLog(ctx context.Context, task string, o LogOptions) (io.ReadCloser, error) {
	if o.TailLines > 0 {
		return c.openTail(ctx, task, o)
	}
	if o.Follow && o.OnCaughtUp != nil {
		return c.openPast(ctx, task, o)
	}
	l := &logReader{ctx: ctx, client: c, task: task, options: o}
	if err := l.openFirst(); err != nil {
		return nil, err
	}
	return l, nil
}

// openFirst opens the log. If it is followed, it retries while no scheduler answers. It
// does not retry if a scheduler has no access to the output.
func (l *logReader) openFirst() error {
	if !l.options.Follow {
		return l.openAnswer()
	}
	var rejected error
	err := l.client.RetryTemporary(l.ctx, func() error {
		err := l.openAnswer()
		var p *api.Problem
		if errors.As(err, &p) && !p.Retryable {
			rejected = err
			return nil
		}
		return err
	})
	if err == nil {
		err = rejected
	}
	return err
}

// logReader reads a log and resumes after broken connections.
type logReader struct {
	ctx context.Context // stored, because io.Reader has no context parameter
	// client sends the requests for the log of task.
	client *Client
	task   string
	// options are the caller's options. Offset advances: it is the position in the current file.
	options LogOptions
	// preceding are the bytes before that position, at most api.MaxPreceding. The scheduler finds the file by them after
	// a rotation.
	preceding []byte
	// answerOffset is the offset in its file at which the next data of the response starts.
	answerOffset int64
	// res is the response that is being read; nil before the first one and after an error.
	res *http.Response
	// readError is why res cannot be read further; nil while it can.
	readError error
	// rotated is set if the file has ended and another one follows: readError is then no failure.
	rotated bool
	// failingSince is the time of the first failure after the last success; zero after a success.
	failingSince time.Time
	// tries counts the failed requests since the last success. It determines the next pause.
	tries int
}

// openAnswer requests the output from the position on.
func (l *logReader) openAnswer() error {
	q := url.Values{}
	if l.options.Stream != "" {
		q.Set("stream", l.options.Stream)
	}
	if l.options.Offset != 0 {
		q.Set("offset", strconv.FormatInt(l.options.Offset, 10))
	} else if l.options.TailBytes > 0 {
		q.Set("tail", strconv.FormatInt(l.options.TailBytes, 10))
	}
	if l.options.Follow {
		q.Set("follow", "true")
	}
	header := http.Header{api.LogPreceding: {base64.StdEncoding.EncodeToString(l.preceding)}}
	res, err := l.client.sendWith(l.ctx, l.client.timeouts.Leader, http.MethodGet, "/v1/tasks/"+url.PathEscape(l.task)+"/log?"+q.Encode(), nil, header)
	l.res = res
	if err != nil {
		return err
	}
	if l.answerOffset, err = strconv.ParseInt(res.Header.Get(api.LogOffset), 10, 64); err != nil {
		l.answerOffset = l.options.Offset // an earlier scheduler that does not support rotation
	}
	if res.Header.Get(api.LogOutputLost) != "" && l.options.OnOutputLost != nil {
		l.options.OnOutputLost()
	}
	return nil
}

// trackPosition updates the position after reading p. The first byte of a response may
// belong to another file.
func (l *logReader) trackPosition(p []byte) {
	if len(p) == 0 {
		return
	}
	if l.answerOffset != l.options.Offset {
		l.options.Offset, l.preceding = l.answerOffset, nil
	}
	l.options.Offset += int64(len(p))
	l.answerOffset = l.options.Offset
	l.preceding = append(l.preceding, p...)
	l.preceding = slices.Clone(l.preceding[max(0, len(l.preceding)-api.MaxPreceding):])
}

// Close closes the connection.
func (l *logReader) Close() error {
	if l.res == nil {
		return nil
	}
	return l.res.Body.Close()
}

// Read implements io.Reader. It returns no data together with an error.
func (l *logReader) Read(p []byte) (int, error) {
	for {
		if l.readError == nil {
			n, err := l.res.Body.Read(p)
			l.trackPosition(p[:n])
			switch {
			case err == nil:
			case !l.isComplete(err):
				l.readError, err = err, nil
			case l.res.Trailer.Get(api.LogRotated) != "":
				l.readError, l.rotated, err = io.EOF, true, nil
			}
			if n > 0 {
				l.failingSince, l.tries = time.Time{}, 0
			}
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		if err := l.resumeReading(); err != nil {
			return 0, err
		}
	}
}

// isComplete reports whether the response is complete. The scheduler marks a complete
// response by a trailer.
func (l *logReader) isComplete(err error) bool {
	_, announced := l.res.Trailer[http.CanonicalHeaderKey(api.NextOffset)]
	return errors.Is(err, io.EOF) && (!announced || l.res.Trailer.Get(api.NextOffset) != "")
}

// resumeReading reopens the log at the position where it broke, or opens the file after
// one that has ended.
func (l *logReader) resumeReading() error {
	_ = l.res.Body.Close() // broken, or read to its end
	if l.rotated {
		l.rotated = false
		return l.reopenAnswer()
	}
	if l.failingSince.IsZero() {
		l.failingSince = time.Now()
	}
	if l.ctx.Err() != nil || time.Since(l.failingSince) > l.client.timeouts.Follow {
		return errors.Join(l.readError, io.ErrUnexpectedEOF)
	}
	l.client.connection.recordFailure(l.readError)
	if err := sleepContext(l.ctx, retryDelay(l.tries)); err != nil {
		return err
	}
	l.tries++
	return l.reopenAnswer()
}

// reopenAnswer requests the output again. A temporary failure is stored, so that Read tries again later; other errors end
// the log, and io.EOF is the end of a task that no longer exists.
func (l *logReader) reopenAnswer() error {
	old := l.res
	err := l.openAnswer()
	var p *api.Problem
	switch {
	case err == nil:
		l.readError = nil
		l.client.connection.recordSuccess()
	case errors.As(err, &p) && p.Status == http.StatusNotFound:
		return io.EOF // the task was lost, and its next attempt has another id
	case IsTemporary(err):
		l.res, l.readError = old, err
	default:
		l.res = old
		return err
	}
	return nil
}

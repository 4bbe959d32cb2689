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

// LogOptions say what of a task's output to read.
type LogOptions struct {
	// Stream is stdout, if empty, or stderr.
	Stream string
	// Offset is a place in the present file of the stream; 0 is the beginning
	// of the oldest that is left.
	Offset int64
	// TailLines is how many of the lines that are there to read; 0 is all.
	TailLines int
	// Follow waits for more until the task has ended.
	Follow bool
	// OnOutputLost, if not nil, is called where output is missing: it was rotated
	// away before it was read.
	OnOutputLost func()
}

// OpenTaskLog returns a task's output, to be closed by the caller. It goes on where it
// was when the scheduler restarts, or another takes over. An error while
// reading it means that there is more.
func (c *Client) OpenTaskLog(ctx context.Context, task string, o LogOptions) (io.ReadCloser, error) {
	if o.TailLines > 0 {
		return c.openTail(ctx, task, o)
	}
	l := &logReader{ctx: ctx, client: c, task: task, options: o}
	if err := l.openAnswer(); err != nil {
		return nil, err
	}
	return l, nil
}

// logReader reads a log through broken connections.
type logReader struct {
	ctx          context.Context // a reader's methods take none
	client       *Client
	task         string
	options      LogOptions // with the offset reached in the present file
	preceding    []byte     // what precedes it there
	answerOffset int64      // where in its file the answer begins, until it has
	res          *http.Response
	readError    error     // why res is read no further
	rotated      bool      // which is that its file has ended, and another follows
	failingSince time.Time // of the first failure after the last success
	tries        int
}

func (l *logReader) openAnswer() error {
	q := url.Values{}
	if l.options.Stream != "" {
		q.Set("stream", l.options.Stream)
	}
	if l.options.Offset != 0 {
		q.Set("offset", strconv.FormatInt(l.options.Offset, 10))
	}
	if l.options.Follow {
		q.Set("follow", "true")
	}
	header := http.Header{api.LogPreceding: {base64.StdEncoding.EncodeToString(l.preceding)}}
	res, err := l.client.sendWith(l.ctx, leaderTimeout, http.MethodGet, "/v1/tasks/"+url.PathEscape(l.task)+"/log?"+q.Encode(), nil, header)
	l.res = res
	if err != nil {
		return err
	}
	if l.answerOffset, err = strconv.ParseInt(res.Header.Get(api.LogOffset), 10, 64); err != nil {
		l.answerOffset = l.options.Offset // a scheduler that knows of no rotation
	}
	if res.Header.Get(api.LogOutputLost) != "" && l.options.OnOutputLost != nil {
		l.options.OnOutputLost()
	}
	return nil
}

// trackPosition notes where the reader is after what has come. The first byte of an
// answer may be another file's.
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

// Close ends the reading.
func (l *logReader) Close() error {
	if l.res == nil {
		return nil
	}
	return l.res.Body.Close()
}

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

// isComplete reports whether the answer ended as it should. A scheduler says so in
// a trailer.
func (l *logReader) isComplete(err error) bool {
	_, announced := l.res.Trailer[http.CanonicalHeaderKey(api.NextOffset)]
	return errors.Is(err, io.EOF) && (!announced || l.res.Trailer.Get(api.NextOffset) != "")
}

// resumeReading opens the log where it broke off, or goes on with the file after the
// one that has ended.
func (l *logReader) resumeReading() error {
	_ = l.res.Body.Close() // it is broken, or read to its end
	if l.rotated {
		l.rotated = false
		return l.reopenAnswer()
	}
	if l.failingSince.IsZero() {
		l.failingSince = time.Now()
	}
	if l.ctx.Err() != nil || time.Since(l.failingSince) > FollowTimeout {
		return errors.Join(l.readError, io.ErrUnexpectedEOF)
	}
	if err := sleepContext(l.ctx, retryDelay(l.tries)); err != nil {
		return err
	}
	l.tries++
	return l.reopenAnswer()
}

func (l *logReader) reopenAnswer() error {
	old := l.res
	err := l.openAnswer()
	var p *api.Problem
	switch {
	case err == nil:
		l.readError = nil
	case errors.As(err, &p) && p.Status == http.StatusNotFound:
		return io.EOF // lost, and tried again under another id
	case IsTemporary(err):
		l.res, l.readError = old, err
	default:
		l.res = old
		return err
	}
	return nil
}

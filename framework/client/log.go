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
	// Last is how many of the lines that are there to read; 0 is all.
	Last int
	// Follow waits for more until the task has ended.
	Follow bool
	// Missed, if not nil, is called where output is missing: it was rotated
	// away before it was read.
	Missed func()
}

// Log returns a task's output, to be closed by the caller. It goes on where it
// was when the scheduler restarts, or another takes over. An error while
// reading it means that there is more.
func (c *Client) Log(ctx context.Context, task string, o LogOptions) (io.ReadCloser, error) {
	if o.Last > 0 {
		return c.tail(ctx, task, o)
	}
	l := &logReader{ctx: ctx, client: c, task: task, options: o}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

// logReader reads a log through broken connections.
type logReader struct {
	ctx     context.Context // a reader's methods take none
	client  *Client
	task    string
	options LogOptions // with the offset reached in the present file
	tail    []byte     // what precedes it there
	begins  int64      // where in its file the answer begins, until it has
	res     *http.Response
	failed  error     // why res is read no further
	rotated bool      // which is that its file has ended, and another follows
	since   time.Time // of the first failure after the last success
	tries   int
}

func (l *logReader) open() error {
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
	header := http.Header{api.LogTail: {base64.StdEncoding.EncodeToString(l.tail)}}
	res, err := l.client.sendWith(l.ctx, takeover, http.MethodGet, "/v1/tasks/"+url.PathEscape(l.task)+"/log?"+q.Encode(), nil, header)
	l.res = res
	if err != nil {
		return err
	}
	if l.begins, err = strconv.ParseInt(res.Header.Get(api.LogOffset), 10, 64); err != nil {
		l.begins = l.options.Offset // a scheduler that knows of no rotation
	}
	if res.Header.Get(api.LogMissed) != "" && l.options.Missed != nil {
		l.options.Missed()
	}
	return nil
}

// take notes where the reader is after what has come. The first byte of an
// answer may be another file's.
func (l *logReader) take(p []byte) {
	if len(p) == 0 {
		return
	}
	if l.begins != l.options.Offset {
		l.options.Offset, l.tail = l.begins, nil
	}
	l.options.Offset += int64(len(p))
	l.begins = l.options.Offset
	l.tail = append(l.tail, p...)
	l.tail = slices.Clone(l.tail[max(0, len(l.tail)-api.TailSize):])
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
		if l.failed == nil {
			n, err := l.res.Body.Read(p)
			l.take(p[:n])
			switch {
			case err == nil:
			case !l.whole(err):
				l.failed, err = err, nil
			case l.res.Trailer.Get(api.LogRotated) != "":
				l.failed, l.rotated, err = io.EOF, true, nil
			}
			if n > 0 {
				l.since, l.tries = time.Time{}, 0
			}
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		if err := l.again(); err != nil {
			return 0, err
		}
	}
}

// whole reports whether the answer ended as it should. A scheduler says so in
// a trailer.
func (l *logReader) whole(err error) bool {
	_, announced := l.res.Trailer[http.CanonicalHeaderKey(api.NextOffset)]
	return errors.Is(err, io.EOF) && (!announced || l.res.Trailer.Get(api.NextOffset) != "")
}

// again opens the log where it broke off, or goes on with the file after the
// one that has ended.
func (l *logReader) again() error {
	_ = l.res.Body.Close() // it is broken, or read to its end
	if l.rotated {
		l.rotated = false
		return l.reopen()
	}
	if l.since.IsZero() {
		l.since = time.Now()
	}
	if l.ctx.Err() != nil || time.Since(l.since) > Patience {
		return errors.Join(l.failed, io.ErrUnexpectedEOF)
	}
	if err := pause(l.ctx, backoff(l.tries)); err != nil {
		return err
	}
	l.tries++
	return l.reopen()
}

func (l *logReader) reopen() error {
	old := l.res
	err := l.open()
	var p *api.Problem
	switch {
	case err == nil:
		l.failed = nil
	case errors.As(err, &p) && p.Status == http.StatusNotFound:
		return io.EOF // lost, and tried again under another id
	case Temporary(err):
		l.res, l.failed = old, err
	default:
		l.res = old
		return err
	}
	return nil
}

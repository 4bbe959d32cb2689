package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"mesos-gpu/framework/api"
)

// LogOptions say what of a task's output to read.
type LogOptions struct {
	// Stream is stdout, if empty, or stderr.
	Stream string
	Offset int64
	// Follow waits for more until the task has ended.
	Follow bool
}

// Log returns a task's output, to be closed by the caller. It goes on where it
// was when the scheduler restarts, or another takes over. An error while
// reading it means that there is more.
func (c *Client) Log(ctx context.Context, task string, o LogOptions) (io.ReadCloser, error) {
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
	options LogOptions // with the offset reached
	res     *http.Response
	failed  error     // why res is read no further
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
	res, err := l.client.send(l.ctx, http.MethodGet, "/v1/tasks/"+url.PathEscape(l.task)+"/log?"+q.Encode(), nil)
	l.res = res
	return err
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
			l.options.Offset += int64(n)
			if err != nil && !l.whole(err) {
				l.failed, err = err, nil
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

// again opens the log where it broke off.
func (l *logReader) again() error {
	_ = l.res.Body.Close() // it is broken
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

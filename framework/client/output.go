package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"mesos-gpu/framework/api"
)

// OutputOptions selects the part of a task's output to read.
type OutputOptions struct {
	// Stream is stdout or stderr; "" means both.
	Stream string
	// Since, if not zero, leaves out lines that were written before, by the agent's clock.
	Since time.Time
	// TailLines is the number of existing lines to read, from the end; 0 is all.
	TailLines int
	// Follow waits for further output until the task has ended.
	Follow bool
}

// ReadTaskOutput iterates over a task's output in the order in which the task wrote it. It
// continues after the scheduler restarts or another one takes over; an error is the last
// element. The first part has Stored, and no output, if the sandbox is gone and the scheduler has stored the end of the output.
// The error is a problem with status 404 before any part if there is no output.
func (c *Client) ReadTaskOutput(ctx context.Context, task string, o OutputOptions) iter.Seq2[api.OutputPart, error] {
	return func(yield func(api.OutputPart, error) bool) {
		after := ""                // the position after the last part; "" before the first
		var failingSince time.Time // the first failure after the last part
		for tries := 0; ; {
			stopped := false
			complete, err := c.readOutputAnswer(ctx, task, o, after, func(p api.OutputPart) bool {
				after, tries, failingSince = p.After, 0, time.Time{}
				stopped = !yield(p, nil)
				return !stopped
			})
			var p *api.Problem
			switch {
			case stopped || complete:
				return
			case after != "" && errors.As(err, &p) && p.Status == http.StatusNotFound:
				return // the task was lost, and its next attempt has another id
			case ctx.Err() != nil, after == "" && !o.Follow, errors.As(err, &p) && !IsTemporary(err):
				yield(api.OutputPart{}, err)
				return
			}
			if failingSince.IsZero() {
				failingSince = time.Now()
			}
			if time.Since(failingSince) > c.timeouts.Follow {
				yield(api.OutputPart{}, err)
				return
			}
			c.connection.recordFailure(err)
			if wait := sleepContext(ctx, retryDelay(tries)); wait != nil {
				yield(api.OutputPart{}, wait)
				return
			}
			tries++
		}
	}
}

// readOutputAnswer reads one answer. complete is set if nothing follows.
func (c *Client) readOutputAnswer(ctx context.Context, task string, o OutputOptions, after string, each func(api.OutputPart) bool) (complete bool, err error) {
	q := url.Values{}
	if o.Stream != "" {
		q.Set("stream", o.Stream)
	}
	if o.Follow {
		q.Set("follow", "true")
	}
	switch {
	case after != "":
		q.Set("after", after)
	default:
		if !o.Since.IsZero() {
			q.Set("since", o.Since.UTC().Format(time.RFC3339Nano))
		}
		if o.TailLines > 0 {
			q.Set("tail", strconv.Itoa(o.TailLines))
		}
	}
	res, err := c.sendWith(ctx, c.timeouts.Leader, http.MethodGet, "/v1/tasks/"+url.PathEscape(task)+"/output?"+q.Encode(), nil, nil)
	if err != nil {
		if p := (*api.Problem)(nil); errors.As(err, &p) && !IsTemporary(err) {
			c.connection.recordSuccess() // the scheduler answers
		}
		return false, err
	}
	defer res.Body.Close()
	c.connection.recordSuccess()
	lines := json.NewDecoder(res.Body)
	for {
		var part api.OutputPart
		if err := lines.Decode(&part); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return false, fmt.Errorf("read output of task %s: %w", task, err)
		}
		if part.Complete && !part.Lost {
			return true, nil
		}
		if !each(part) || part.Complete {
			return part.Complete, nil
		}
	}
}

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"mesos-gpu/framework/api"
)

// maxEventLine bounds one event of the stream.
const maxEventLine = 1 << 20

// Events streams the states of a job's tasks, of all jobs' if name is empty:
// first as they are, then each change. It ends with ctx, or with an error
// when the stream breaks; the next call begins anew with all states.
func (c *Client) Events(ctx context.Context, name string) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		path := "/v1/events"
		if name != "" {
			path += "?job=" + url.QueryEscape(name)
		}
		res, err := c.send(ctx, http.MethodGet, path, nil)
		if err != nil {
			yield(api.Event{}, err)
			return
		}
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, maxEventLine)
		for lines.Scan() {
			text, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue // a comment, or the end of an event
			}
			var ev api.Event
			if err := json.Unmarshal([]byte(text), &ev); err != nil {
				yield(api.Event{}, fmt.Errorf("parse event: %w", err))
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
		if ctx.Err() == nil {
			yield(api.Event{}, fmt.Errorf("read events: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF)))
		}
	}
}

// waitAgain is how long Wait waits before it begins a broken stream anew.
const waitAgain = 200 * time.Millisecond

// Wait follows a job until it has ended, through broken streams, and returns
// it as it then is.
func (c *Client) Wait(ctx context.Context, name string) (api.JobView, error) {
	for {
		if view, err := c.watch(ctx, name); err != nil || view.Terminal {
			return view, err
		}
		select {
		case <-time.After(waitAgain):
		case <-ctx.Done():
			return api.JobView{}, context.Cause(ctx)
		}
	}
}

// watch follows one stream to its end or the job's.
func (c *Client) watch(ctx context.Context, name string) (api.JobView, error) {
	var live map[string]bool // tasks that have not ended
	for ev, err := range c.Events(ctx, name) {
		if err != nil {
			break
		}
		if live == nil {
			view, err := c.Job(ctx, name)
			if err != nil || view.Terminal {
				return view, err
			}
			live = map[string]bool{}
			for _, t := range view.Tasks {
				if t.State.Live() {
					live[t.ID] = true
				}
			}
		}
		if live[ev.Task] = true; !ev.State.Live() {
			delete(live, ev.Task)
		}
		if len(live) > 0 {
			continue
		}
		if view, err := c.Job(ctx, name); err != nil || view.Terminal {
			return view, err
		}
	}
	return c.Job(ctx, name)
}

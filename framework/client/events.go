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
		named := false
		for lines.Scan() {
			named = lines.Text() != "" && (named || strings.HasPrefix(lines.Text(), "event:"))
			text, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok || named {
				continue // a comment, the end of an event, or one that is no task's
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

// Follow streams as Events does, but goes on when the stream breaks: each state
// comes once. It ends with ctx, or with the error that does not pass.
func (c *Client) Follow(ctx context.Context, name string) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		seen := map[string]api.Event{}
		var down time.Time // when it broke after the last event
		for tries := 0; ; tries++ {
			var broke error
			for ev, err := range c.Events(ctx, name) {
				if err != nil {
					broke = err
					break
				}
				down, tries = time.Time{}, 0
				// A standby may not have heard of what we have seen.
				if old, ok := seen[ev.Task]; ok && (old.State == ev.State || ev.Time.Before(old.Time)) {
					continue
				}
				seen[ev.Task] = ev
				if !yield(ev, nil) {
					return
				}
			}
			if ctx.Err() != nil {
				return
			}
			if down.IsZero() {
				down = time.Now()
			}
			if !Temporary(broke) || time.Since(down) > Patience {
				yield(api.Event{}, broke)
				return
			}
			if pause(ctx, backoff(tries)) != nil {
				return
			}
		}
	}
}

// Wait follows a job until it has ended, through restarts of the scheduler,
// and returns it as it then is.
func (c *Client) Wait(ctx context.Context, name string) (view api.JobView, err error) {
	live := map[string]bool{} // tasks that have not ended, whichever their attempt
	for ev, err := range c.Follow(ctx, name) {
		if err != nil {
			return view, err
		}
		if live[taskOf(ev.Task)] = true; !ev.State.Live() {
			delete(live, taskOf(ev.Task))
		}
		if len(live) > 0 {
			continue
		}
		err := patiently(ctx, func() error { view, err = c.Job(ctx, name); return err })
		if err != nil || view.Terminal {
			return view, err
		}
		for i := range view.Tasks {
			if view.Tasks[i].State.Live() {
				live[taskOf(view.Tasks[i].ID)] = true
			}
		}
	}
	return view, context.Cause(ctx)
}

// taskOf is the part JOB.INDEX of a task's id. An attempt may be lost, and the
// next begin, while the stream is broken: the end of the first is never heard.
func taskOf(id string) string {
	for range 2 {
		if i := strings.LastIndexByte(id, '.'); i > 0 {
			id = id[:i]
		}
	}
	return id
}

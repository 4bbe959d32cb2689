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
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// maxEventLine limits one line of the stream, in bytes.
const maxEventLine = 1 << 20

// StreamEvents streams the states of a job's tasks, or of all tasks if name is empty:
// first the present states, then each change. It ends with ctx, or with an error when the
// stream breaks. The next call starts with all states again.
func (c *Client) StreamEvents(ctx context.Context, name string) iter.Seq2[api.TaskEvent, error] {
	return func(yield func(api.TaskEvent, error) bool) {
		path := "/v1/events"
		if name != "" {
			path += "?job=" + url.QueryEscape(name)
		}
		res, err := c.sendRequest(ctx, http.MethodGet, path, nil)
		if err != nil {
			yield(api.TaskEvent{}, err)
			return
		}
		defer res.Body.Close()
		c.connection.recordSuccess()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, maxEventLine)
		named := false
		for lines.Scan() {
			named = lines.Text() != "" && (named || strings.HasPrefix(lines.Text(), "event:"))
			text, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok || named {
				continue // a comment, the end of an event, or an event with a name
			}
			var ev api.TaskEvent
			if err := json.Unmarshal([]byte(text), &ev); err != nil {
				yield(api.TaskEvent{}, fmt.Errorf("parse event: %w", err))
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
		if ctx.Err() == nil {
			yield(api.TaskEvent{}, fmt.Errorf("read events: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF)))
		}
	}
}

// FollowEvents is like StreamEvents, but reconnects when the stream breaks and yields each
// state once, except that of the oldest ended attempts if there are very many. It ends with ctx, or with the first permanent error.
func (c *Client) FollowEvents(ctx context.Context, name string) iter.Seq2[api.TaskEvent, error] {
	return func(yield func(api.TaskEvent, error) bool) {
		seen := eventHistory{maxEnded: maxEndedAttempts}
		var down time.Time // time of the first failure after the last event
		for tries := 0; ; tries++ {
			var broke error
			for ev, err := range c.StreamEvents(ctx, name) {
				if err != nil {
					broke = err
					break
				}
				down, tries = time.Time{}, 0
				if seen.add(ev) && !yield(ev, nil) {
					return
				}
			}
			if ctx.Err() != nil {
				return
			}
			if down.IsZero() {
				down = time.Now()
			}
			if !IsTemporary(broke) || time.Since(down) > c.timeouts.Follow {
				yield(api.TaskEvent{}, broke)
				return
			}
			c.connection.recordFailure(broke)
			if sleepContext(ctx, retryDelay(tries)) != nil {
				return
			}
		}
	}
}

// maxEndedAttempts limits the memory of a client that follows all jobs for a long time.
const maxEndedAttempts = 100_000

// eventHistory has the last event of each attempt, because a new stream repeats all states.
type eventHistory struct {
	last map[string]api.TaskEvent
	// ended are the attempts that have ended, in that order. The history forgets the oldest of more
	// than maxEnded; their end is new again if a later stream repeats it.
	ended    []string
	maxEnded int
}

// add reports whether the event is new, and remembers it.
func (h *eventHistory) add(ev api.TaskEvent) bool {
	old, known := h.last[ev.Task]
	if known && (old.State == ev.State || isOutdated(ev, old)) {
		return false
	}
	if h.last == nil {
		h.last = map[string]api.TaskEvent{}
	}
	h.last[ev.Task] = ev
	if ev.State.IsLive() || known && !old.State.IsLive() {
		return true
	}
	if h.ended = append(h.ended, ev.Task); len(h.ended) > h.maxEnded {
		delete(h.last, h.ended[0])
		h.ended = h.ended[1:]
	}
	return true
}

// isOutdated reports whether ev is older than old, an event of the same attempt: a standby
// may lag behind the scheduler that sent old. The time alone does not decide, because a
// scheduler's clock may be set back.
func isOutdated(ev, old api.TaskEvent) bool {
	order := job.States()
	return ev.Time.Before(old.Time) && slices.Index(order, ev.State) < slices.Index(order, old.State)
}

// WaitForJob waits until a job has ended, through restarts of the scheduler, and returns
// the job.
func (c *Client) WaitForJob(ctx context.Context, name string) (view api.JobView, err error) {
	live := map[string]bool{} // tasks that have not ended, by JOB.INDEX
	for ev, err := range c.FollowEvents(ctx, name) {
		if err != nil {
			return view, err
		}
		if live[taskPrefix(ev.Task)] = true; !ev.State.IsLive() {
			delete(live, taskPrefix(ev.Task))
		}
		if len(live) > 0 {
			continue
		}
		err := c.RetryTemporary(ctx, func() error { view, err = c.GetJob(ctx, name); return err })
		if err != nil || view.Terminal {
			return view, err
		}
		for i := range view.Tasks {
			if view.Tasks[i].State.IsLive() {
				live[taskPrefix(view.Tasks[i].ID)] = true
			}
		}
	}
	return view, context.Cause(ctx)
}

// taskPrefix returns the part JOB.INDEX of a task id. While the stream is broken an
// attempt may be lost and the next one start, so the end of the first is never received.
func taskPrefix(id string) string {
	for range 2 {
		if i := strings.LastIndexByte(id, '.'); i > 0 {
			id = id[:i]
		}
	}
	return id
}

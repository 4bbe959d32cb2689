package framework

import (
	"sync"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// backlog is how many events a listener may be behind.
const backlog = 4096

// hub passes events on to those who listen. One who is too slow is dropped:
// the loop waits for nobody.
type hub struct {
	mu        sync.Mutex
	listeners map[*listener]bool
	closed    bool
}

type listener struct {
	job string // "" is all
	ch  chan api.Event
}

func newHub() *hub { return &hub{listeners: map[*listener]bool{}} }

func (h *hub) join(job string) *listener {
	l := &listener{job: job, ch: make(chan api.Event, backlog)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = true
	if h.closed {
		h.drop(l)
	}
	return l
}

// close drops all listeners, and those who join later.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for l := range h.listeners {
		h.drop(l)
	}
}

// leave may be called again, and after the hub dropped the listener.
func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(l)
}

func (h *hub) drop(l *listener) {
	if h.listeners[l] {
		delete(h.listeners, l)
		close(l.ch)
	}
}

func (h *hub) publish(ev api.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.job != "" && l.job != ev.Job {
			continue
		}
		select {
		case l.ch <- ev:
		default:
			h.drop(l)
		}
	}
}

func eventOf(m sched.Move) api.Event {
	return api.Event{Time: m.Time, Job: m.Job, Task: m.TaskID, State: m.State, Message: m.Message}
}

// eventsOf are a job's tasks as they are now.
func eventsOf(j *job.Job) []api.Event {
	events := make([]api.Event, len(j.Tasks))
	for i := range j.Tasks {
		t := &j.Tasks[i]
		events[i] = api.Event{Time: t.Changed, Job: t.Job, Task: t.ID, State: t.State, Message: t.Message}
	}
	return events
}

package framework

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// backlog is how many events a listener may be behind.
const backlog = 4096

// kept is how many events are kept for those who come back: more than one who
// was too slow has not read.
const kept = 2 * backlog

// hub passes events on to those who listen. One who is too slow is dropped:
// the loop waits for nobody.
type hub struct {
	epoch     string // of this hub: another one's events are others
	mu        sync.Mutex
	listeners map[*listener]bool
	closed    bool
	// last counts events; that of number n is past[(n-1)%kept], where it is
	// not older than that.
	last uint64
	past []api.Event
}

type listener struct {
	job string // "" is all
	// inventory: it wants to know of changes to agents and GPUs.
	inventory bool
	ch        chan api.Event
}

func newHub() *hub { return &hub{epoch: rand.Text()[:8], listeners: map[*listener]bool{}} }

// place is the id of the last event.
func (h *hub) place() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id(h.last)
}

func (h *hub) id(n uint64) string { return h.epoch + "-" + strconv.FormatUint(n, 10) }

// since are the events after q's, of its job. It is false where that one is of
// another hub, or too long ago.
func (h *hub) since(q api.EventQuery) (missed []api.Event, known bool) {
	number, ours := strings.CutPrefix(q.After, h.epoch+"-")
	n, err := strconv.ParseUint(number, 10, 64)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ours || err != nil || n > h.last || h.last-n > uint64(len(h.past)) {
		return nil, false
	}
	for ; n < h.last; n++ {
		if ev := h.past[n%kept]; q.Job == "" || q.Job == ev.Job {
			missed = append(missed, ev)
		}
	}
	return missed, true
}

func (h *hub) keep(ev api.Event) {
	if len(h.past) < kept {
		h.past = append(h.past, ev)
	} else {
		h.past[(h.last-1)%kept] = ev
	}
}

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
	h.last++
	ev.ID = h.id(h.last)
	h.keep(ev)
	for l := range h.listeners {
		if l.job == "" || l.job == ev.Job {
			h.tell(l, ev)
		}
	}
}

func (h *hub) tell(l *listener, ev api.Event) {
	select {
	case l.ch <- ev:
	default:
		h.drop(l)
	}
}

// want has a listener hear of changes to agents and GPUs.
func (h *hub) want(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.inventory = true
}

// restock says that agents or GPUs have changed. It has no place among the
// events, for who comes back asks for the lists anyway.
func (h *hub) restock() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.inventory {
			h.tell(l, api.Event{Inventory: true})
		}
	}
}

func eventOf(m sched.Move) api.Event {
	return api.Event{Time: m.Time, Job: m.Job, Task: m.TaskID, State: m.State, Message: m.Message}
}

// appendStates adds a job's tasks as they are now.
func appendStates(to []api.Event, j *job.Job, live bool) []api.Event {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; !live || t.State.Live() {
			to = append(to, api.Event{Time: t.Changed, Job: t.Job, Task: t.ID, State: t.State, Message: t.Message})
		}
	}
	return to
}

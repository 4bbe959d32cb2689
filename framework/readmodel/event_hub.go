package readmodel

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/job"
)

// listenerBuffer is how many unread events a listener may have before it is dropped.
const listenerBuffer = 4096

// storedEvents is how many events are stored for clients that reconnect. It exceeds
// the events that a dropped listener can have missed.
const storedEvents = 2 * listenerBuffer

// eventHub publishes events to listeners. It drops a listener that is too slow, so
// that publishing never blocks the loop.
type eventHub struct {
	epoch string // identifies this hub; event ids of other hubs are unknown to it
	// mu protects the fields below.
	mu sync.Mutex
	// listeners are the event streams that are open.
	listeners map[*eventListener]bool
	// closed is set when the hub publishes nothing further: its listeners reconnect to another scheduler.
	closed bool
	// last is the number of the latest event. Event n is at
	// stored[(n-1)%storedEvents], unless a later one has overwritten it.
	last   uint64
	stored []api.TaskEvent
}

type eventListener struct {
	job string // "" selects the events of all jobs
	// inventory also selects changes of agents and GPUs.
	inventory bool
	// ch receives the events. It is closed if the listener is too slow.
	ch chan api.TaskEvent
}

func newHub() *eventHub {
	return &eventHub{epoch: rand.Text()[:8], listeners: map[*eventListener]bool{}}
}

// lastEventID returns the id of the latest event.
func (h *eventHub) lastEventID() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.formatEventID(h.last)
}

func (h *eventHub) formatEventID(n uint64) string { return h.epoch + "-" + strconv.FormatUint(n, 10) }

// eventsAfter returns the events of q's job after q.After. known is false if that event
// belongs to another hub or is no longer stored.
func (h *eventHub) eventsAfter(q apiserver.EventQuery) (missed []api.TaskEvent, known bool) {
	number, ours := strings.CutPrefix(q.After, h.epoch+"-")
	n, err := strconv.ParseUint(number, 10, 64)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !ours || err != nil || n > h.last || h.last-n > uint64(len(h.stored)) {
		return nil, false
	}
	for ; n < h.last; n++ {
		if ev := h.stored[n%storedEvents]; q.Job == "" || q.Job == ev.Job {
			missed = append(missed, ev)
		}
	}
	return missed, true
}

func (h *eventHub) storeEvent(ev api.TaskEvent) {
	if len(h.stored) < storedEvents {
		h.stored = append(h.stored, ev)
	} else {
		h.stored[(h.last-1)%storedEvents] = ev
	}
}

func (h *eventHub) addListener(job string) *eventListener {
	l := &eventListener{job: job, ch: make(chan api.TaskEvent, listenerBuffer)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = true
	if h.closed {
		h.dropListener(l)
	}
	return l
}

// closeListeners drops all listeners, also those that are added later.
func (h *eventHub) closeListeners() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for l := range h.listeners {
		h.dropListener(l)
	}
}

// removeListener drops a listener. It does nothing if the listener is already dropped.
func (h *eventHub) removeListener(l *eventListener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropListener(l)
}

func (h *eventHub) dropListener(l *eventListener) {
	if h.listeners[l] {
		delete(h.listeners, l)
		close(l.ch)
	}
}

func (h *eventHub) publishEvent(ev api.TaskEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	ev.ID = h.formatEventID(h.last)
	h.storeEvent(ev)
	for l := range h.listeners {
		if l.job == "" || l.job == ev.Job {
			h.sendOrDrop(l, ev)
		}
	}
}

func (h *eventHub) sendOrDrop(l *eventListener, ev api.TaskEvent) {
	select {
	case l.ch <- ev:
	default:
		h.dropListener(l)
	}
}

// subscribeInventory makes a listener also receive changes of agents and GPUs.
func (h *eventHub) subscribeInventory(l *eventListener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.inventory = true
}

// publishInventoryChange notifies listeners that agents or GPUs have changed. The
// notification is not stored: a client that reconnects reads the lists anyway.
func (h *eventHub) publishInventoryChange() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if l.inventory {
			h.sendOrDrop(l, api.TaskEvent{InventoryChanged: true})
		}
	}
}

// appendStates appends an event with the current state of each of a job's tasks; with
// live, only of tasks that have not ended.
func appendStates(to []api.TaskEvent, j *job.Job, live bool) []api.TaskEvent {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; !live || t.State.IsLive() {
			to = append(to, api.TaskEvent{Time: t.Changed, Job: t.Job, Task: t.ID, State: t.State, Message: t.Message})
		}
	}
	return to
}

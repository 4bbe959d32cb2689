package readmodel

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// storedEvents is how many events are stored. A stream that is further behind is ended.
const storedEvents = 8192

// eventHub stores the latest events once for all streams. A stream reads them at its own
// pace, so publishing never waits for a reader, and a slow reader costs no memory.
type eventHub struct {
	// epoch identifies this hub; event ids of other hubs are unknown to it. It is random: a client that reconnects to
	// another scheduler gets the present states.
	epoch string
	// mu protects the fields below.
	mu sync.Mutex
	// listeners are the event streams that are open.
	listeners map[*eventListener]bool
	// closed is set when the hub publishes nothing further: its listeners reconnect to another scheduler.
	closed bool
	// last is the number of the latest event, 0 before the first. Event n is at
	// stored[(n-1)%storedEvents], unless a later one has overwritten it.
	last   uint64
	stored []storedEvent
	// inventoryChanges counts the changes of agents and GPUs.
	inventoryChanges uint64
}

// storedEvent is an event with the owner of its job and the place of its task in the list of jobs. The place has no
// submission if the job is no longer recorded.
type storedEvent struct {
	api.TaskEvent
	owner string
	place taskPlace
}

// taskPlace orders tasks by the submission of their job, then by index.
type taskPlace struct {
	submitted time.Time
	job       string
	index     int
}

// isBefore reports whether the task precedes other.
func (p *taskPlace) isBefore(other *taskPlace) bool {
	if c := p.submitted.Compare(other.submitted); c != 0 {
		return c < 0
	}
	if p.job != other.job {
		return p.job < other.job
	}
	return p.index < other.index
}

// eventListener is notified of new events. It does not store them.
type eventListener struct {
	// events are those that wake the listener.
	events eventSelection
	// inventory also selects changes of agents and GPUs.
	inventory bool
	// wake has an element if there may be something new, including the end of the hub.
	wake chan struct{}
}

// eventSelection selects the events of a run or, without a number, of all runs of the owner's job. Without a name it selects
// all events.
type eventSelection struct {
	run   job.RunID
	owner string
}

func (s *eventSelection) includes(ev *storedEvent) bool {
	return s.run.Name == "" || s.run.Name == ev.Job && (s.run.Run == ev.Run || s.run.Run == 0 && s.owner == ev.owner)
}

func newHub() *eventHub {
	return &eventHub{epoch: rand.Text()[:8], listeners: map[*eventListener]bool{}}
}

// lastNumber returns the number of the latest event.
func (h *eventHub) lastNumber() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

func (h *eventHub) formatEventID(n uint64) string { return h.epoch + "-" + strconv.FormatUint(n, 10) }

// parseEventID returns the number of an event. ok is false if the event belongs to another
// hub or the events after it are no longer all stored.
func (h *eventHub) parseEventID(id string) (n uint64, ok bool) {
	number, ours := strings.CutPrefix(id, h.epoch+"-")
	n, err := strconv.ParseUint(number, 10, 64)
	h.mu.Lock()
	defer h.mu.Unlock()
	return n, ours && err == nil && h.isStored(n)
}

// isStored reports whether all events after n are stored. The caller holds the lock.
func (h *eventHub) isStored(n uint64) bool {
	return n <= h.last && h.last-n <= uint64(len(h.stored))
}

// readEvents returns at most limit selected events after n, and the number of the last event that
// it has examined. ok is false if events after n are no longer stored.
func (h *eventHub) readEvents(n uint64, selected *eventSelection, limit int) (events []storedEvent, last uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isStored(n) {
		return nil, n, false
	}
	for ; n < h.last && len(events) < limit; n++ {
		if ev := &h.stored[n%storedEvents]; selected.includes(ev) {
			events = append(events, *ev)
		}
	}
	return events, n, true
}

// storeEvent stores the event with the number last. The caller holds the lock.
func (h *eventHub) storeEvent(ev storedEvent) {
	if len(h.stored) < storedEvents {
		h.stored = append(h.stored, ev)
	} else {
		h.stored[(h.last-1)%storedEvents] = ev
	}
}

// addListener adds a listener. It also returns the present number of inventory changes.
func (h *eventHub) addListener(events eventSelection, inventory bool) (l *eventListener, inventoryChanges uint64) {
	l = &eventListener{events: events, inventory: inventory, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[l] = true
	return l, h.inventoryChanges
}

// removeListener removes a listener, if it has not been removed.
func (h *eventHub) removeListener(l *eventListener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
}

// closeListeners ends all streams, also those that start later.
func (h *eventHub) closeListeners() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for l := range h.listeners {
		l.notify()
	}
}

// inventoryState returns how often the inventory has changed, and whether the hub is closed.
func (h *eventHub) inventoryState() (changes uint64, closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inventoryChanges, h.closed
}

// notify wakes the listener. It never waits for it.
func (l *eventListener) notify() {
	select {
	case l.wake <- struct{}{}:
	default: // already notified
	}
}

// publishEvent gives an event the next number, stores it and wakes the listeners that select it.
func (h *eventHub) publishEvent(ev storedEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	ev.ID = h.formatEventID(h.last)
	h.storeEvent(ev)
	for l := range h.listeners {
		if l.events.includes(&ev) {
			l.notify()
		}
	}
}

// publishInventoryChange notifies listeners that agents or GPUs have changed. The change is
// not stored as an event: a client that reconnects reads the lists anyway.
func (h *eventHub) publishInventoryChange() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inventoryChanges++
	for l := range h.listeners {
		if l.inventory {
			l.notify()
		}
	}
}

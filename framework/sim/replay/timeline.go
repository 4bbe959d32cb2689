package replay

import (
	"container/heap"
	"time"
)

// timelineEvent is something that is due at a time.
type timelineEvent struct {
	at     time.Duration
	number int // among events of equal times the lowest number is first
	kind   eventKind
	task   *runningTask // of taskEnds and taskSaved
}

// eventKind is the type of an event.
type eventKind int

const (
	// taskEnds is the end of the run time of a task. It has no effect if the task was killed before.
	taskEnds eventKind = iota
	// taskSaved is the end of a task that was warned and has saved its state.
	taskSaved
	// offersDue is an allocation of the master.
	offersDue
	// tickDue is a step of the scheduler in which only time has passed.
	tickDue
)

// timeline is a heap of events, the earliest first.
type timeline struct {
	// list is a heap by time, and by number for equal times.
	list []timelineEvent
	// number is the number of the next event.
	number int
	// due are the allocations and ticks in the list, which need no duplicates.
	due map[timelineEvent]bool
}

// newTimeline returns a timeline without events.
func newTimeline() *timeline { return &timeline{due: map[timelineEvent]bool{}} }

// Len, Less, Swap, Push and Pop implement heap.Interface. Others use schedule and nextEvent.
func (t *timeline) Len() int { return len(t.list) }
func (t *timeline) Less(i, j int) bool {
	a, b := &t.list[i], &t.list[j]
	return a.at < b.at || a.at == b.at && a.number < b.number
}
func (t *timeline) Swap(i, j int) { t.list[i], t.list[j] = t.list[j], t.list[i] }
func (t *timeline) Push(x any)    { t.list = append(t.list, x.(timelineEvent)) }
func (t *timeline) Pop() any {
	last := t.list[len(t.list)-1]
	t.list[len(t.list)-1] = timelineEvent{}
	t.list = t.list[:len(t.list)-1]
	return last
}

// schedule adds an event. An allocation or tick that is due at the same time already is not added again.
func (t *timeline) schedule(m timelineEvent) {
	if m.task == nil {
		if t.due[m] {
			return
		}
		t.due[m] = true
	}
	m.number = t.number
	t.number++
	heap.Push(t, m)
}

// nextEvent removes and returns the earliest event.
func (t *timeline) nextEvent() timelineEvent {
	m := heap.Pop(t).(timelineEvent)
	delete(t.due, timelineEvent{at: m.at, kind: m.kind})
	return m
}

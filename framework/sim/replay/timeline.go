package replay

import (
	"container/heap"
	"time"
)

// moment is something that is due.
type moment struct {
	at     time.Duration
	number int // of equals the first goes first
	what   what
	task   *running
}

type what int

const (
	ends what = iota
	allocates
	ticks
)

// timeline is what is due, the earliest first.
type timeline struct {
	list   []moment
	number int
	// due are the allocations and ticks in the list: one at a time is enough.
	due map[moment]bool
}

func newTimeline() *timeline { return &timeline{due: map[moment]bool{}} }

func (t *timeline) Len() int { return len(t.list) }
func (t *timeline) Less(i, j int) bool {
	a, b := &t.list[i], &t.list[j]
	return a.at < b.at || a.at == b.at && a.number < b.number
}
func (t *timeline) Swap(i, j int) { t.list[i], t.list[j] = t.list[j], t.list[i] }
func (t *timeline) Push(x any)    { t.list = append(t.list, x.(moment)) }
func (t *timeline) Pop() any {
	last := t.list[len(t.list)-1]
	t.list[len(t.list)-1] = moment{}
	t.list = t.list[:len(t.list)-1]
	return last
}

func (t *timeline) add(m moment) {
	if m.what != ends {
		if t.due[m] {
			return
		}
		t.due[m] = true
	}
	m.number = t.number
	t.number++
	heap.Push(t, m)
}

// next takes the earliest off.
func (t *timeline) next() moment {
	m := heap.Pop(t).(moment)
	delete(t.due, moment{at: m.at, what: m.what})
	return m
}

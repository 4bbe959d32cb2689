// Package offers implements the offer filters of a master: resources that a
// framework has refused are not offered to it for a while. The embedded master
// uses it with Mesos resources, the replay of traces with its own, smaller
// representation. The package does not decide which framework is offered what.
package offers

import (
	"maps"
	"slices"
	"time"
)

// The default minimum offer of Mesos: an offer has at least this many CPUs or
// this much memory.
const (
	MinCPUs   = 0.01
	MinMemMiB = 32
)

// Filters are the active filters of a master. S identifies the agent and the
// framework's role that a filter applies to. R is an amount of resources.
// Filters is not safe for concurrent use.
type Filters[S comparable, R any] struct {
	contains func(have, want R) bool
	bySlot   map[S][]offerFilter[R]
}

type offerFilter[R any] struct {
	refused R
	until   time.Time
}

// NewFilters returns Filters without filters. contains reports whether have
// includes all of want.
func NewFilters[S comparable, R any](contains func(have, want R) bool) *Filters[S, R] {
	return &Filters[S, R]{contains: contains, bySlot: map[S][]offerFilter[R]{}}
}

// Add suppresses offers to slot that the refused resources contain, until the
// given time.
func (f *Filters[S, R]) Add(slot S, refused R, until time.Time) {
	f.bySlot[slot] = append(f.bySlot[slot], offerFilter[R]{refused, until})
}

// Refuses reports whether one active filter of slot covers all of r. Additional
// resources therefore make the whole amount offerable again. Nil Filters refuse
// nothing.
func (f *Filters[S, R]) Refuses(slot S, r R, now time.Time) bool {
	return f != nil && slices.ContainsFunc(f.bySlot[slot], func(one offerFilter[R]) bool {
		return now.Before(one.until) && f.contains(one.refused, r)
	})
}

// Remove removes the filters of the slots that which selects.
func (f *Filters[S, R]) Remove(which func(S) bool) {
	maps.DeleteFunc(f.bySlot, func(slot S, _ []offerFilter[R]) bool { return which(slot) })
}

// RemoveExpired removes the filters that have expired.
func (f *Filters[S, R]) RemoveExpired(now time.Time) {
	for slot, list := range f.bySlot {
		switch left := slices.DeleteFunc(list, func(one offerFilter[R]) bool { return !now.Before(one.until) }); len(left) {
		case len(list):
		case 0:
			delete(f.bySlot, slot)
		default:
			f.bySlot[slot] = left
		}
	}
}

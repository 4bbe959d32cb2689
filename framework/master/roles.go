package master

import (
	"slices"
	"sync"

	"mesos-gpu/framework/sched"
)

// roleState remembers what the master is to know of our roles. Operations are
// forgotten with their session; each SUBSCRIBE says all of this anew.
type roleState struct {
	mu         sync.Mutex
	names      []string
	suppressed map[string]bool // suppressed, by name
	version    int             // counts changes
}

// roleSnapshot is the state of roles at a moment.
type roleSnapshot struct {
	names      []string
	suppressed []string
	version    int
}

func newRoleState(names []string) *roleState {
	return &roleState{names: uniqueNames(names), suppressed: map[string]bool{}}
}

func uniqueNames(names []string) []string {
	var list []string
	for _, n := range names {
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// applyOperation takes an operation into account, sent or not.
func (r *roleState) applyOperation(op sched.Operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch o := op.(type) {
	case sched.SuppressOffers:
		r.setSuppressed(o.Roles, true)
	case sched.ReviveOffers:
		r.setSuppressed(o.Roles, false)
	case sched.SetRoles:
		r.names = uniqueNames(o.Roles)
	default:
		return
	}
	r.version++
}

func (r *roleState) setSuppressed(names []string, silent bool) {
	if len(names) == 0 {
		names = r.names
	}
	for _, n := range names {
		r.suppressed[n] = silent
	}
}

// snapshot lists only those of the suppressed that are roles: the master refuses
// others.
func (r *roleState) snapshot() roleSnapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := roleSnapshot{names: slices.Clone(r.names), version: r.version}
	for _, n := range r.names {
		if r.suppressed[n] {
			s.suppressed = append(s.suppressed, n)
		}
	}
	return s
}

// revertRefused takes back roles that the master refused, unless others have been
// set since.
func (r *roleState) revertRefused(refused, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(r.names, uniqueNames(refused)) {
		r.names = slices.Clone(names)
		r.version++
	}
}

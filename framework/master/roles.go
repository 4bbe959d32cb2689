package master

import (
	"slices"
	"sync"

	"mesos-gpu/framework/sched"
)

// roleState stores which roles the framework has and which of them are
// suppressed. Posted operations are lost with their session, so each SUBSCRIBE
// carries the whole state.
type roleState struct {
	// mu protects all fields: the loop changes them, sessions read them.
	mu sync.Mutex
	// names are the framework's roles, each once.
	names []string
	// suppressed has the roles for which the master is to send no offers. It may contain former roles.
	suppressed map[string]bool
	// version is incremented by each change.
	version int
}

// roleSnapshot is the state of roles at one moment.
type roleSnapshot struct {
	// names are all roles, suppressed those of them for which the master sends no offers.
	names      []string
	suppressed []string
	// version is the version of the state, to detect later changes.
	version int
}

func newRoleState(names []string) *roleState {
	return &roleState{names: uniqueNames(names), suppressed: map[string]bool{}}
}

// uniqueNames returns each name once, in their order.
func uniqueNames(names []string) []string {
	var list []string
	for _, n := range names {
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// applyOperation updates the state by an operation, whether it is sent or not.
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

// setSuppressed suppresses roles or ends that; no names mean all roles. The caller holds the lock.
func (r *roleState) setSuppressed(names []string, suppressed bool) {
	if len(names) == 0 {
		names = r.names
	}
	for _, n := range names {
		r.suppressed[n] = suppressed
	}
}

// snapshot returns the current state. It omits suppressed names that are no
// longer roles, which the master would reject.
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

// revertRefused restores the roles after the master rejected a change, unless
// they have changed again.
func (r *roleState) revertRefused(refused, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(r.names, uniqueNames(refused)) {
		r.names = slices.Clone(names)
		r.version++
	}
}

package master

import (
	"slices"
	"sync"

	"mesos-gpu/framework/sched"
)

// roles remembers what the master is to know of our roles. Operations are
// forgotten with their session; each SUBSCRIBE says all of this anew.
type roles struct {
	mu      sync.Mutex
	names   []string
	silent  map[string]bool // suppressed, by name
	version int             // counts changes
}

// standing is the state of roles at a moment.
type standing struct {
	names      []string
	suppressed []string
	version    int
}

func newRoles(names []string) *roles {
	return &roles{names: distinct(names), silent: map[string]bool{}}
}

func distinct(names []string) []string {
	var list []string
	for _, n := range names {
		if !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// note takes an operation into account, sent or not.
func (r *roles) note(op sched.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch o := op.(type) {
	case sched.Suppress:
		r.silence(o.Roles, true)
	case sched.Revive:
		r.silence(o.Roles, false)
	case sched.SetRoles:
		r.names = distinct(o.Roles)
	default:
		return
	}
	r.version++
}

func (r *roles) silence(names []string, silent bool) {
	if len(names) == 0 {
		names = r.names
	}
	for _, n := range names {
		r.silent[n] = silent
	}
}

// now lists only those of the suppressed that are roles: the master refuses
// others.
func (r *roles) now() standing {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := standing{names: slices.Clone(r.names), version: r.version}
	for _, n := range r.names {
		if r.silent[n] {
			s.suppressed = append(s.suppressed, n)
		}
	}
	return s
}

// restore takes back roles that the master refused, unless others have been
// set since.
func (r *roles) restore(refused, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(r.names, distinct(refused)) {
		r.names = slices.Clone(names)
		r.version++
	}
}

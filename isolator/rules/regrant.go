package rules

import (
	"slices"
	"strings"
)

// Unconfined reports whether a list opens devices of every major number, as
// that of a cgroup does which nobody confined.
func Unconfined(list []Rule) bool {
	return slices.ContainsFunc(list, func(r Rule) bool {
		return r.Kind != 'b' && r.Major == Any && strings.ContainsAny(r.Access, "rw")
	})
}

// Regrant gives the list of a cgroup that allows now and shall reach the GPUs
// that grant reaches: all else stays, for an operator may have allowed it. A
// cgroup that nobody confined gets the grant alone.
func Regrant(now, grant []Rule, m Majors) []Rule {
	if Unconfined(now) {
		return grant
	}
	list := slices.DeleteFunc(slices.Clone(now), m.reaches)
	for _, r := range grant {
		if m.reaches(r) {
			list = append(list, r)
		}
	}
	return Merge(list)
}

// reaches reports whether a rule is about the nodes that reach GPUs: theirs,
// the control nodes and the capabilities.
func (m Majors) reaches(r Rule) bool {
	if r.Kind != 'c' {
		return false
	}
	return r.Major == NvidiaMajor || m.UVM != 0 && r.Major == int64(m.UVM) || m.Caps != 0 && r.Major == int64(m.Caps)
}

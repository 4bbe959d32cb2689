package rules

import (
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// Holding is ForGPUs backwards: the devices, in the host's order, that a list
// lets a container open for reading and writing. A MIG device is held by one
// that reaches its parent's node and both of its own.
func Holding(h gpu.Host, m Majors, list []Rule) []string {
	var held []string
	for _, d := range h.Devices {
		reaches := func(n Node) bool { return Allows(list, n.rule("rw")) }
		if grantable(d, m) == nil && !slices.ContainsFunc(deviceNodes(d, m), func(n Node) bool { return !reaches(n) }) {
			held = append(held, d.UUID)
		}
	}
	return held
}

// Allows reports whether the kernel lets a process of a cgroup with that list
// do what want says: one rule alone must allow all of it.
func Allows(list []Rule, want Rule) bool {
	return slices.ContainsFunc(Merge(list), func(r Rule) bool {
		return r.covers(want) && bits(want.Access)&^bits(r.Access) == 0
	})
}

// covers reports whether the rule is about all the devices of other.
func (r Rule) covers(other Rule) bool {
	return (r.Kind == 'a' || r.Kind == other.Kind) &&
		(r.Major == Any || r.Major == other.Major) && (r.Minor == Any || r.Minor == other.Minor)
}

// Intersect gives what both lists allow, in the rules of the first: it is
// what a process may open that two programs both confine.
func Intersect(list, other []Rule) []Rule {
	var both []Rule
	for _, r := range Merge(list) {
		allowed := 0
		for _, o := range other {
			if o.covers(r) {
				allowed |= bits(o.Access)
			}
		}
		if allowed &= bits(r.Access); allowed != 0 {
			r.Access = letters(allowed)
			both = append(both, r)
		}
	}
	return both
}

// GPUMinors tells which GPUs a list lets a container open for reading and
// writing, by minor number in order. all says that a wildcard opens every
// one; minors is then nil.
func GPUMinors(list []Rule) (minors []int, all bool) {
	for _, r := range Merge(list) {
		if r.Kind == 'b' || !strings.HasPrefix(r.Access, "rw") {
			continue
		}
		if r.Major != Any && r.Major != NvidiaMajor {
			continue
		}
		switch {
		case r.Minor == Any:
			return nil, true
		case r.Minor < ModesetMinor:
			minors = append(minors, int(r.Minor))
		}
	}
	slices.Sort(minors) // a wildcard major comes before all others
	return slices.Compact(minors), false
}

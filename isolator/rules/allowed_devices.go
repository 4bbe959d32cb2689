package rules

import (
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// AllowedDevices is RulesForGPUs backwards: the devices, in the host's order, that a list
// lets a container open for reading and writing. A MIG device is held by one
// that reaches its parent's node and both of its own.
func AllowedDevices(h gpu.Host, m MajorNumbers, list []DeviceRule) []string {
	var held []string
	for _, d := range h.Devices {
		reaches := func(n DeviceNode) bool { return Allows(list, n.allowRule("rw")) }
		if checkGrantable(d, m) == nil && !slices.ContainsFunc(deviceNodes(d, m), func(n DeviceNode) bool { return !reaches(n) }) {
			held = append(held, d.UUID)
		}
	}
	return held
}

// Allows reports whether the kernel lets a process of a cgroup with that list
// do what want says: one rule alone must allow all of it.
func Allows(list []DeviceRule, want DeviceRule) bool {
	return slices.ContainsFunc(MergeRules(list), func(r DeviceRule) bool {
		return r.coversDevice(want) && accessBits(want.Access)&^accessBits(r.Access) == 0
	})
}

// coversDevice reports whether the rule is about all the devices of other.
func (r DeviceRule) coversDevice(other DeviceRule) bool {
	return (r.Kind == 'a' || r.Kind == other.Kind) &&
		(r.Major == AnyNumber || r.Major == other.Major) && (r.Minor == AnyNumber || r.Minor == other.Minor)
}

// IntersectRules gives what both lists allow, in the rules of the first: it is
// what a process may open that two programs both confine.
func IntersectRules(list, other []DeviceRule) []DeviceRule {
	var both []DeviceRule
	for _, r := range MergeRules(list) {
		allowed := 0
		for _, o := range other {
			if o.coversDevice(r) {
				allowed |= accessBits(o.Access)
			}
		}
		if allowed &= accessBits(r.Access); allowed != 0 {
			r.Access = accessLetters(allowed)
			both = append(both, r)
		}
	}
	return both
}

// GPUMinors tells which GPUs a list lets a container open for reading and
// writing, by minor number in order. all says that a wildcard opens every
// one; minors is then nil.
func GPUMinors(list []DeviceRule) (minors []int, all bool) {
	for _, r := range MergeRules(list) {
		if r.Kind == 'b' || !strings.HasPrefix(r.Access, "rw") {
			continue
		}
		if r.Major != AnyNumber && r.Major != NvidiaMajor {
			continue
		}
		switch {
		case r.Minor == AnyNumber:
			return nil, true
		case r.Minor < ModesetMinor:
			minors = append(minors, int(r.Minor))
		}
	}
	slices.Sort(minors) // a wildcard major comes before all others
	return slices.Compact(minors), false
}

package rules

import (
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// AllowedDevices is the inverse of RulesForGPUs: it returns the devices, in
// the host's order, that a rule list allows a container to read and write. A
// MIG device requires access to its parent's node and both of its own.
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

// Allows reports whether the kernel allows a process of a cgroup with that
// list the access of want. A single rule must allow all of it.
func Allows(list []DeviceRule, want DeviceRule) bool {
	return slices.ContainsFunc(MergeRules(list), func(r DeviceRule) bool {
		return r.coversDevice(want) && accessBits(want.Access)&^accessBits(r.Access) == 0
	})
}

// coversDevice reports whether the rule applies to all devices of other.
func (r DeviceRule) coversDevice(other DeviceRule) bool {
	return (r.Kind == 'a' || r.Kind == other.Kind) &&
		(r.Major == AnyNumber || r.Major == other.Major) && (r.Minor == AnyNumber || r.Minor == other.Minor)
}

// IntersectRules returns the devices that both lists allow, as rules of the first list:
// a process may open these if two programs both confine it.
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

// GPUMinors returns the sorted minor numbers of the GPUs that a list allows a
// container to read and write. all means that a wildcard allows every GPU;
// minors is then nil.
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
	slices.Sort(minors) // a wildcard major sorts before all others
	return slices.Compact(minors), false
}

package rules

import (
	"slices"
	"strings"
)

// IsUnconfined reports whether a list opens devices of every major number, as
// that of a cgroup does which nobody confined.
func IsUnconfined(list []DeviceRule) bool {
	return slices.ContainsFunc(list, func(r DeviceRule) bool {
		return r.Kind != 'b' && r.Major == AnyNumber && strings.ContainsAny(r.Access, "rw")
	})
}

// ReplaceGPURules gives the list of a cgroup that allows now and shall reach the GPUs
// that grant reaches: all else stays, for an operator may have allowed it. A
// cgroup that nobody confined gets the grant alone.
func ReplaceGPURules(now, grant []DeviceRule, m MajorNumbers) []DeviceRule {
	if IsUnconfined(now) {
		return grant
	}
	list := slices.DeleteFunc(slices.Clone(now), m.isGPURule)
	for _, r := range grant {
		if m.isGPURule(r) {
			list = append(list, r)
		}
	}
	return MergeRules(list)
}

// isGPURule reports whether a rule is about the nodes that reach GPUs: theirs,
// the control nodes and the capabilities.
func (m MajorNumbers) isGPURule(r DeviceRule) bool {
	if r.Kind != 'c' {
		return false
	}
	return r.Major == NvidiaMajor || m.UVM != 0 && r.Major == int64(m.UVM) || m.Caps != 0 && r.Major == int64(m.Caps)
}

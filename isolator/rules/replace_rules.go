package rules

import (
	"slices"
	"strings"
)

// IsUnconfined reports whether a list allows devices of every major number, as
// that of an unconfined cgroup does.
func IsUnconfined(list []DeviceRule) bool {
	return slices.ContainsFunc(list, func(r DeviceRule) bool {
		return r.Kind != 'b' && r.Major == AnyNumber && strings.ContainsAny(r.Access, "rw")
	})
}

// ReplaceGPURules returns the new list of a cgroup whose current list is now:
// its rules for GPUs are replaced by those of grant, and all others stay,
// because an operator may have added them. An unconfined cgroup gets grant
// alone.
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

// isGPURule reports whether a rule is about the nodes that give access to
// GPUs: their own, the control nodes and the capabilities.
func (m MajorNumbers) isGPURule(r DeviceRule) bool {
	if r.Kind != 'c' {
		return false
	}
	return r.Major == NvidiaMajor || m.UVM != 0 && r.Major == int64(m.UVM) || m.Caps != 0 && r.Major == int64(m.Caps)
}

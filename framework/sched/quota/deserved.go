package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Total returns the number of GPUs of all types that a role with these entries deserves: the entry AllTypes, which counts
// every GPU, or else the sum of the entries.
func (q Quota) Total() int {
	if all, ok := q[AllTypes]; ok {
		return all
	}
	return q.totalOfTypes()
}

// totalOfTypes returns the sum of the entries for types, without those that other entries include.
func (q Quota) totalOfTypes() (sum int) {
	for name, n := range q {
		included := false
		for other := range q {
			included = included || other != name && other != AllTypes && includesEntry(other, name)
		}
		if name != AllTypes && !included {
			sum += n
		}
	}
	return sum
}

// EntryFor returns the least number of the entries that count all GPUs of a type, and whether there is one. The entry
// AllTypes is only that of AllTypes.
func (q Quota) EntryFor(gpuType string) (least int, ok bool) {
	for name, n := range q {
		if (name == AllTypes) == (gpuType == AllTypes) && includesEntry(name, gpuType) && (!ok || n < least) {
			least, ok = n, true
		}
	}
	return least, ok
}

// ParentOf returns the nearest role above one, "" if none of the roles is above it.
func ParentOf(role string, isRole func(string) bool) string {
	for i := strings.LastIndexByte(role, '/'); i >= 0; i = strings.LastIndexByte(role, '/') {
		if role = role[:i]; isRole(role) {
			return role
		}
	}
	return ""
}

// ValidateDeserved returns all errors in what roles deserve: it must be within the role's quota, and what a role deserves
// must be sufficient for what the roles below it deserve.
func ValidateDeserved(roles []RoleEntitlement) error {
	deserving := map[string]*RoleEntitlement{}
	for i := range roles {
		if roles[i].Deserved != nil {
			deserving[roles[i].Role] = &roles[i]
		}
	}
	var errs []error
	children := map[string][]*RoleEntitlement{}
	for i := range roles {
		r := &roles[i]
		if r.Deserved == nil {
			continue
		}
		errs = append(errs, validateDeservedEntries(r))
		if parent := ParentOf(r.Role, func(name string) bool { return deserving[name] != nil }); parent != "" {
			children[parent] = append(children[parent], r)
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(children)) {
		errs = append(errs, validateChildren(deserving[parent], children[parent]))
	}
	return errors.Join(append(errs, validateDeservedHost(roles))...)
}

func validateDeservedEntries(r *RoleEntitlement) error {
	var errs []error
	typed := r.Deserved.totalOfTypes()
	for _, name := range slices.Sorted(maps.Keys(r.Deserved)) {
		n := r.Deserved[name]
		if limit, ok := r.Quota.EntryFor(name); ok && n > limit {
			errs = append(errs, fmt.Errorf("role %q: it deserves %s=%d, its limit is %s=%d", r.Role, name, n, name, limit))
		}
	}
	if all, ok := r.Deserved[AllTypes]; ok && all < typed {
		errs = append(errs, fmt.Errorf("role %q: it deserves *=%d, less than the %d of its types together: * counts all GPUs", r.Role, all, typed))
	}
	if limit, ok := r.Quota[AllTypes]; ok && r.Deserved.Total() > limit {
		errs = append(errs, fmt.Errorf("role %q: it deserves %d GPUs, its limit is *=%d", r.Role, r.Deserved.Total(), limit))
	}
	return errors.Join(errs...)
}

// validateChildren checks that the roles directly below one deserve no more together than it does.
func validateChildren(parent *RoleEntitlement, children []*RoleEntitlement) error {
	var errs []error
	total, byType := 0, map[string]int{}
	var names []string
	for _, c := range children {
		names = append(names, c.Role)
		total += c.Deserved.Total()
		for _, name := range slices.Sorted(maps.Keys(c.Deserved)) {
			if name == AllTypes {
				continue
			}
			counted := false
			for entry := range parent.Deserved {
				if entry != AllTypes && includesEntry(entry, name) {
					byType[entry] += c.Deserved[name]
					counted = true
				}
			}
			if !counted {
				byType[name] += c.Deserved[name]
			}
		}
	}
	sum := func(n int, name string, most int) {
		if n > most {
			errs = append(errs, fmt.Errorf("role %q deserves %s=%d, the roles below it (%s) deserve %s=%d together",
				parent.Role, name, most, strings.Join(names, ", "), name, n))
		}
	}
	_, hasAll := parent.Deserved[AllTypes]
	for _, name := range slices.Sorted(maps.Keys(byType)) {
		if most, ok := parent.Deserved[name]; ok || !hasAll {
			sum(byType[name], name, most)
		}
	}
	sum(total, AllTypes, parent.Deserved.Total())
	return errors.Join(errs...)
}

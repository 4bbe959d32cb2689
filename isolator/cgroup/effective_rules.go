package cgroup

import (
	"fmt"
	"path"
	"slices"

	"mesos-gpu/isolator/rules"
)

// ReadRules returns what the cgroup's programs allow, restricted by those of the cgroups above
// it. An unconfined cgroup has the rule "a *:* rwm". Programs of other software are not read.
func (v V2) ReadRules(cgroup string) ([]rules.DeviceRule, error) {
	var list []rules.DeviceRule
	confined := false
	for at := path.Clean("/" + cgroup); ; at = path.Dir(at) {
		found, err := v.readOwnRules(at, confined)
		if err != nil {
			return nil, fmt.Errorf("read device cgroup %s: %w", at, err)
		}
		for _, more := range found {
			if list = rules.IntersectRules(list, more); !confined {
				list, confined = more, true
			}
		}
		if at == "/" {
			break
		}
	}
	if !confined {
		return []rules.DeviceRule{{Kind: 'a', Major: rules.AnyNumber, Minor: rules.AnyNumber, Access: "rwm"}}, nil
	}
	return list, nil
}

// readOwnRules returns the rules of one cgroup's programs. A program of defaultRole applies
// only if no cgroup between has a program: overridden is false then.
func (v V2) readOwnRules(path string, overridden bool) (lists [][]rules.DeviceRule, err error) {
	err = v.withPrograms(path, func(_ int, all []attachedProgram) error {
		for _, a := range all {
			if !a.hasRole(ownRole) && (overridden || !a.hasRole(defaultRole)) {
				continue
			}
			list, err := a.readRules()
			if err != nil {
				return err
			}
			lists = append(lists, list)
		}
		return nil
	})
	return lists, err
}

// IsConfined reports whether ConfineCgroup confined the cgroup itself, not only a cgroup above
// it.
func (v V2) IsConfined(path string) (confined bool, err error) {
	err = v.withPrograms(path, func(_ int, all []attachedProgram) error {
		confined = slices.ContainsFunc(all, func(a attachedProgram) bool { return a.hasRole(ownRole) })
		return nil
	})
	return confined, err
}

package cgroup

import (
	"fmt"
	"path"
	"slices"

	"mesos-gpu/isolator/rules"
)

// ReadRules gives what the cgroup's programs allow and, since they count too,
// those of the cgroups above it; one that nobody confined has the rule
// "a *:* rwm". Programs of others are not read.
func (c V2) ReadRules(cgroup string) ([]rules.DeviceRule, error) {
	var list []rules.DeviceRule
	confined := false
	for at := path.Clean("/" + cgroup); ; at = path.Dir(at) {
		found, err := c.readOwnRules(at, confined)
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

// readOwnRules reads the programs of one cgroup that count for one below it, which
// a fallback does only where the cgroups between have no program.
func (c V2) readOwnRules(path string, overridden bool) (lists [][]rules.DeviceRule, err error) {
	err = c.withPrograms(path, func(_ int, all []attachedProgram) error {
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

// IsConfined reports whether Confine has been here, not just above.
func (c V2) IsConfined(path string) (confined bool, err error) {
	err = c.withPrograms(path, func(_ int, all []attachedProgram) error {
		confined = slices.ContainsFunc(all, func(a attachedProgram) bool { return a.hasRole(ownRole) })
		return nil
	})
	return confined, err
}

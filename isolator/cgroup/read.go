package cgroup

import (
	"fmt"
	"path"
	"slices"

	"mesos-gpu/isolator/rules"
)

// Read gives what the cgroup's programs allow and, since they count too,
// those of the cgroups above it; one that nobody confined has the rule
// "a *:* rwm". Programs of others are not read.
func (c V2) Read(cgroup string) ([]rules.Rule, error) {
	var list []rules.Rule
	confined := false
	for at := path.Clean("/" + cgroup); ; at = path.Dir(at) {
		found, err := c.readOne(at, confined)
		if err != nil {
			return nil, fmt.Errorf("read device cgroup %s: %w", at, err)
		}
		for _, more := range found {
			if list = rules.Intersect(list, more); !confined {
				list, confined = more, true
			}
		}
		if at == "/" {
			break
		}
	}
	if !confined {
		return []rules.Rule{{Kind: 'a', Major: rules.Any, Minor: rules.Any, Access: "rwm"}}, nil
	}
	return list, nil
}

// readOne reads the programs of one cgroup that count for one below it, which
// a fallback does only where the cgroups between have no program.
func (c V2) readOne(path string, overridden bool) (lists [][]rules.Rule, err error) {
	err = c.with(path, func(_ int, all []attached) error {
		for _, a := range all {
			if !a.is(own) && (overridden || !a.is(fallback)) {
				continue
			}
			list, err := a.list()
			if err != nil {
				return err
			}
			lists = append(lists, list)
		}
		return nil
	})
	return lists, err
}

// Confined reports whether Confine has been here, not just above.
func (c V2) Confined(path string) (confined bool, err error) {
	err = c.with(path, func(_ int, all []attached) error {
		confined = slices.ContainsFunc(all, func(a attached) bool { return a.is(own) })
		return nil
	})
	return confined, err
}

// Package cgroup has the kernel enforce device rules for a cgroup, and reads them back. V1
// writes the lists of the devices hierarchy, V2 attaches eBPF programs to cgroups of version 2.
// The package does not decide which rules a container gets: package rules does. If the kernel
// reports other rules after a change, that is an error.
package cgroup

import (
	"errors"
	"fmt"
	"strings"

	"mesos-gpu/isolator/rules"
)

// ErrNoHierarchy is returned if the hierarchy is not mounted, or a process is not in it.
var ErrNoHierarchy = errors.New("no such cgroup hierarchy")

type ruleReader interface {
	ReadRules(path string) ([]rules.DeviceRule, error)
}

// verifyRules compares the kernel's rules with those that were written.
func verifyRules(c ruleReader, path string, want []rules.DeviceRule) error {
	got, err := c.ReadRules(path)
	if err != nil {
		return err
	}
	more, less := rules.SubtractRules(got, want), rules.SubtractRules(want, got)
	if len(more)+len(less) > 0 {
		return fmt.Errorf("confine device cgroup %s: after writing, the kernel allows %s too much and %s too little",
			path, formatRules(more), formatRules(less))
	}
	return nil
}

func formatRules(list []rules.DeviceRule) string {
	if len(list) == 0 {
		return "nothing"
	}
	lines := make([]string, len(list))
	for i, r := range list {
		lines[i] = r.String()
	}
	return "[" + strings.Join(lines, ", ") + "]"
}

package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseRule parses one line of a devices.list, "c 195:0 rw". It accepts only
// the kernel's own form, so that String returns the same line.
func ParseRule(line string) (DeviceRule, error) {
	kind, rest, ok := strings.Cut(line, " ")
	numbers, access, ok2 := strings.Cut(rest, " ")
	major, minor, ok3 := strings.Cut(numbers, ":")
	if !ok || !ok2 || !ok3 {
		return DeviceRule{}, fmt.Errorf("parse device rule %q: want KIND MAJOR:MINOR ACCESS", line)
	}
	if len(kind) != 1 || !strings.Contains("abc", kind) {
		return DeviceRule{}, fmt.Errorf("parse device rule %q: kind %q is not a, b or c", line, kind)
	}
	if access == "" || access != accessLetters(accessBits(access)) {
		return DeviceRule{}, fmt.Errorf("parse device rule %q: access %q is no part of rwm", line, access)
	}
	r := DeviceRule{Kind: kind[0], Access: access}
	var err error
	if r.Major, err = parseNumber(major); err != nil {
		return DeviceRule{}, fmt.Errorf("parse device rule %q: major: %w", line, err)
	}
	if r.Minor, err = parseNumber(minor); err != nil {
		return DeviceRule{}, fmt.Errorf("parse device rule %q: minor: %w", line, err)
	}
	return r, nil
}

// ParseRules parses a whole devices.list.
func ParseRules(text string) ([]DeviceRule, error) {
	var list []DeviceRule
	for line := range strings.Lines(text) {
		r, err := ParseRule(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func parseNumber(s string) (int64, error) {
	if s == "*" {
		return AnyNumber, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is neither * nor a number of 32 bits", s)
	}
	return int64(n), nil
}

// accessBits and accessLetters convert an access to a bit set and back: r 1, w
// 2, m 4.
func accessBits(access string) int {
	set := 0
	for i, letter := range "rwm" {
		if strings.ContainsRune(access, letter) {
			set |= 1 << i
		}
	}
	return set
}

func accessLetters(set int) string {
	var access strings.Builder
	for i, letter := range "rwm" {
		if set&(1<<i) != 0 {
			access.WriteRune(letter)
		}
	}
	return access.String()
}

// MergeRules sorts a list by device and merges the rules of the same device,
// as the kernel does.
func MergeRules(list []DeviceRule) []DeviceRule {
	byDevice := map[DeviceRule]int{}
	for _, r := range list {
		device := DeviceRule{Kind: r.Kind, Major: r.Major, Minor: r.Minor}
		byDevice[device] |= accessBits(r.Access)
	}
	merged := make([]DeviceRule, 0, len(byDevice))
	for device, access := range byDevice {
		if access != 0 {
			device.Access = accessLetters(access)
			merged = append(merged, device)
		}
	}
	slices.SortFunc(merged, func(a, b DeviceRule) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
	})
	return merged
}

// SubtractRules returns what list allows in addition to other, device by
// device. A wildcard counts as a device of its own: the kernel removes it only
// by a rule with the same wildcard.
func SubtractRules(list, other []DeviceRule) []DeviceRule {
	access := map[DeviceRule]int{}
	for _, r := range MergeRules(other) {
		access[DeviceRule{Kind: r.Kind, Major: r.Major, Minor: r.Minor}] = accessBits(r.Access)
	}
	var left []DeviceRule
	for _, r := range MergeRules(list) {
		more := accessBits(r.Access) &^ access[DeviceRule{Kind: r.Kind, Major: r.Major, Minor: r.Minor}]
		if more != 0 {
			left = append(left, DeviceRule{Kind: r.Kind, Major: r.Major, Minor: r.Minor, Access: accessLetters(more)})
		}
	}
	return left
}

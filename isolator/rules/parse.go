package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Parse reads one line of a devices.list, "c 195:0 rw". Only the kernel's own
// form passes, so that String gives the line back.
func Parse(line string) (Rule, error) {
	kind, rest, ok := strings.Cut(line, " ")
	numbers, access, ok2 := strings.Cut(rest, " ")
	major, minor, ok3 := strings.Cut(numbers, ":")
	if !ok || !ok2 || !ok3 {
		return Rule{}, fmt.Errorf("parse device rule %q: want KIND MAJOR:MINOR ACCESS", line)
	}
	if len(kind) != 1 || !strings.Contains("abc", kind) {
		return Rule{}, fmt.Errorf("parse device rule %q: kind %q is none of a, b, c", line, kind)
	}
	if access == "" || access != letters(bits(access)) {
		return Rule{}, fmt.Errorf("parse device rule %q: access %q is no part of rwm", line, access)
	}
	r := Rule{Kind: kind[0], Access: access}
	var err error
	if r.Major, err = number(major); err != nil {
		return Rule{}, fmt.Errorf("parse device rule %q: major: %w", line, err)
	}
	if r.Minor, err = number(minor); err != nil {
		return Rule{}, fmt.Errorf("parse device rule %q: minor: %w", line, err)
	}
	return r, nil
}

// ParseList reads a whole devices.list.
func ParseList(text string) ([]Rule, error) {
	var list []Rule
	for line := range strings.Lines(text) {
		r, err := Parse(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

func number(s string) (int64, error) {
	if s == "*" {
		return Any, nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%q is neither * nor a number of 32 bits", s)
	}
	return int64(n), nil
}

// bits and letters turn an access into a set and back: r 1, w 2, m 4.
func bits(access string) int {
	set := 0
	for i, letter := range "rwm" {
		if strings.ContainsRune(access, letter) {
			set |= 1 << i
		}
	}
	return set
}

func letters(set int) string {
	var access strings.Builder
	for i, letter := range "rwm" {
		if set&(1<<i) != 0 {
			access.WriteRune(letter)
		}
	}
	return access.String()
}

// Merge sorts a list by device and joins the rules of one, as the kernel does.
func Merge(list []Rule) []Rule {
	byDevice := map[Rule]int{}
	for _, r := range list {
		device := Rule{Kind: r.Kind, Major: r.Major, Minor: r.Minor}
		byDevice[device] |= bits(r.Access)
	}
	merged := make([]Rule, 0, len(byDevice))
	for device, access := range byDevice {
		if access != 0 {
			device.Access = letters(access)
			merged = append(merged, device)
		}
	}
	slices.SortFunc(merged, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Major, b.Major), cmp.Compare(a.Minor, b.Minor))
	})
	return merged
}

// Subtract gives what list allows beyond other, device by device. A wildcard
// is a device of its own: the kernel removes it only by its own name.
func Subtract(list, other []Rule) []Rule {
	access := map[Rule]int{}
	for _, r := range Merge(other) {
		access[Rule{Kind: r.Kind, Major: r.Major, Minor: r.Minor}] = bits(r.Access)
	}
	var left []Rule
	for _, r := range Merge(list) {
		more := bits(r.Access) &^ access[Rule{Kind: r.Kind, Major: r.Major, Minor: r.Minor}]
		if more != 0 {
			left = append(left, Rule{Kind: r.Kind, Major: r.Major, Minor: r.Minor, Access: letters(more)})
		}
	}
	return left
}

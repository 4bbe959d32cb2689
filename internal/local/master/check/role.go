// Package check validates a scheduler's calls, its FrameworkInfo and its tasks,
// with the error messages of a Mesos master. It is pure: the caller handles
// invalid input.
package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// maxID is the maximum length of a file name, because ids become folder names.
const maxID = 255

func validateID(what, value string) error {
	switch {
	case value == "":
		return fmt.Errorf("%s must not be empty", what)
	case len(value) > maxID:
		return fmt.Errorf("%s has %d characters, at most %d are allowed", what, len(value), maxID)
	case value == "." || value == "..":
		return fmt.Errorf("%s %q is disallowed", what, value)
	case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f || c == '/' || c == '\\' }):
		return fmt.Errorf("%s %q contains invalid characters: no slash or control character is allowed", what, value)
	}
	return nil
}

// ValidateRole returns an error if the role's name is invalid.
func ValidateRole(role string) error {
	if role == "*" {
		return nil
	}
	if role == "" {
		return errors.New("role name must not be empty")
	}
	for part := range strings.SplitSeq(role, "/") {
		switch {
		case part == "":
			return fmt.Errorf("role %q has an empty component: no slash at an end or twice", role)
		case part == "." || part == ".." || part == "*":
			return fmt.Errorf("role %q includes %q as a component", role, part)
		case part[0] == '-':
			return fmt.Errorf("component %q of role %q starts with a dash", part, role)
		case strings.ContainsAny(part, "\t\n\v\f\r \x7f"):
			return fmt.Errorf("component %q of role %q contains whitespace or backspace", part, role)
		}
	}
	return nil
}

// HasCapability reports whether the framework declares the capability.
func HasCapability(info mesos.FrameworkInfo, capability mesos.FrameworkInfo_Capability_Type) bool {
	return slices.ContainsFunc(info.Capabilities, func(c mesos.FrameworkInfo_Capability) bool { return c.Type == capability })
}

// RolesOf returns the roles that the framework subscribes to.
func RolesOf(info mesos.FrameworkInfo) []string {
	if HasCapability(info, mesos.FrameworkInfo_Capability_MULTI_ROLE) {
		return info.Roles
	}
	return []string{info.GetRole()}
}

package link

import (
	"fmt"
	"strings"
)

// Version is the version that master and agent report: the Mesos release whose
// v1 APIs they implement.
const Version = "1.11.0"

// maxID is the maximum length of ids in bytes. They become folder names.
const maxID = 242

// ValidateID rejects an id that is not a valid folder name. what names the id in
// the error.
func ValidateID(what, value string) error {
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

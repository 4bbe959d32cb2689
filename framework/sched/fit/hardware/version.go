package hardware

import (
	"slices"
	"strconv"
	"strings"
)

// Version is a version such as 535.104.05. An unknown one has no numbers.
type Version struct {
	// Text is the version as the host reports it.
	Text    string
	numbers []int
}

// parseVersion returns an unknown version for text of another form.
func parseVersion(s string) Version {
	v := Version{Text: s}
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return Version{}
		}
		v.numbers = append(v.numbers, n)
	}
	for n := len(v.numbers); n > 1 && v.numbers[n-1] == 0; n-- { // 12.0 is 12
		v.numbers = v.numbers[:n-1]
	}
	return v
}

// IsAtLeast reports whether v is known and not older than want. It returns false
// if want is not a version, and true if it is empty.
func (v Version) IsAtLeast(want string) bool {
	if want == "" {
		return true
	}
	w := parseVersion(want)
	return v.IsKnown() && w.IsKnown() && v.Compare(w) >= 0
}

// IsKnown reports whether the host reports a version.
func (v Version) IsKnown() bool { return len(v.numbers) > 0 }

// Compare orders unknown versions before known ones.
func (v Version) Compare(w Version) int { return slices.Compare(v.numbers, w.numbers) }

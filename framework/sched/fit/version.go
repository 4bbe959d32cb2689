package fit

import (
	"slices"
	"strconv"
	"strings"
)

// dottedVersion is a version such as 535.104.05. An unknown one has no numbers.
type dottedVersion struct {
	text    string
	numbers []int
}

// parseVersion returns an unknown version for text of another form.
func parseVersion(s string) dottedVersion {
	v := dottedVersion{text: s}
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return dottedVersion{}
		}
		v.numbers = append(v.numbers, n)
	}
	for n := len(v.numbers); n > 1 && v.numbers[n-1] == 0; n-- { // 12.0 is 12
		v.numbers = v.numbers[:n-1]
	}
	return v
}

// isAtLeast reports whether v is known and not older than want. It returns false
// if want is not a version, and true if it is empty.
func (v dottedVersion) isAtLeast(want string) bool {
	if want == "" {
		return true
	}
	w := parseVersion(want)
	return v.isKnown() && w.isKnown() && v.compare(w) >= 0
}

func (v dottedVersion) isKnown() bool { return len(v.numbers) > 0 }

// compare orders unknown versions before known ones.
func (v dottedVersion) compare(w dottedVersion) int {
	return slices.Compare(v.numbers, w.numbers)
}

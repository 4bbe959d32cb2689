package fit

import (
	"slices"
	"strconv"
	"strings"
)

// dottedVersion is a dotted number such as 535.104.05; without numbers where it is
// not known.
type dottedVersion struct {
	text    string
	numbers []int
}

// parseVersion knows no version in what is no dotted number.
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

// isAtLeast reports whether v is known and no older than want. A wish that is no
// version is satisfied by none.
func (v dottedVersion) isAtLeast(want string) bool {
	if want == "" {
		return true
	}
	w := parseVersion(want)
	return v.isKnown() && w.isKnown() && v.compare(w) >= 0
}

func (v dottedVersion) isKnown() bool { return len(v.numbers) > 0 }

// compare puts an unknown version before all others.
func (v dottedVersion) compare(w dottedVersion) int {
	return slices.Compare(v.numbers, w.numbers)
}

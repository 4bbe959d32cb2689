package fit

import (
	"slices"
	"strconv"
	"strings"
)

// version is a dotted number such as 535.104.05; without numbers where it is
// not known.
type version struct {
	text    string
	numbers []int
}

// parseVersion knows no version in what is no dotted number.
func parseVersion(s string) version {
	v := version{text: s}
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return version{}
		}
		v.numbers = append(v.numbers, n)
	}
	for n := len(v.numbers); n > 1 && v.numbers[n-1] == 0; n-- { // 12.0 is 12
		v.numbers = v.numbers[:n-1]
	}
	return v
}

// least reports whether v is known and no older than want. A wish that is no
// version is satisfied by none.
func (v version) least(want string) bool {
	if want == "" {
		return true
	}
	w := parseVersion(want)
	return v.known() && w.known() && v.compare(w) >= 0
}

func (v version) known() bool { return len(v.numbers) > 0 }

// compare puts an unknown version before all others.
func (v version) compare(w version) int {
	return slices.Compare(v.numbers, w.numbers)
}

package term

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLastLines(t *testing.T) {
	for _, c := range []struct {
		text string
		cut  bool
		want []string
	}{
		{"", false, nil},
		{"\r\n\n", true, nil},
		{"one", true, []string{"one"}},
		{"one\n", true, []string{"one"}},
		{"rest of a line\ntwo\r\nth\x1bree\n\n", true, []string{"two", `th\x1bree`}},
		{"1\n2\n3\n4\n", false, []string{"2", "3", "4"}},
	} {
		if diff := cmp.Diff(c.want, LastLines([]byte(c.text), c.cut, 3)); diff != "" {
			t.Errorf("%q: -want +got\n%s", c.text, diff)
		}
	}
}

package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatusLineHidesSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"two\nlines\x1b[2J":                       `two; lines\x1b[2J`,
		`master http://gpu:s3cret@m1:5050: EOF`:   `master http://…@m1:5050: EOF`,
		"open zk://a:b@h1,h2/x":                   "open zk://…@h1,h2/x",
		strings.Repeat("ä", maxStatusSize):        strings.Repeat("ä", maxStatusSize/2) + "…",
		"x" + strings.Repeat("ä", maxStatusSize):  "x" + strings.Repeat("ä", maxStatusSize/2-1) + "…",
		"http://m1:5050/redirect: mail a@b about": "http://m1:5050/redirect: mail a@b about",
	} {
		if diff := cmp.Diff("STATUS="+want, StatusLine(text)); diff != "" {
			t.Error(diff)
		}
	}
}

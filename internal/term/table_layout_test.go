package term

import (
	"bytes"
	"slices"
	"testing"
)

// East Asian characters take two columns, combining marks none.
func TestWideCharactersAreAligned(t *testing.T) {
	rows := [][]string{{"学習ジョブ", "running"}, {"e\u0301tude", "staging"}}
	for _, c := range []struct {
		columns int
		want    string
	}{
		{0, "JOB         NOTE\n学習ジョブ  running\ne\u0301tude       staging\n"},
		{14, "JOB     NOTE\n学…ブ   runni…\ne\u0301tude   stagi…\n"},
	} {
		var out bytes.Buffer
		p := &TablePrinter{Writer: &out, TerminalScreen: TerminalScreen{Columns: c.columns}}
		if err := p.WriteTable([]string{"JOB", "NOTE"}, rows); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%d columns: got\n%swant\n%s", c.columns, &out, c.want)
		}
	}
}

func TestTextIsWrappedAtSpaces(t *testing.T) {
	for text, want := range map[string][]string{
		"one two three":      {"one", "two", "three"},
		"a b c d":            {"a b c", "d"},
		"":                   nil,
		"incomprehensible a": {"incomp", "rehens", "ible a"},
		"学習 ジョブ名":            {"学習", "ジョブ", "名"},
	} {
		if got := WrapAt(text, 6); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

package jobs

import (
	"testing"
)

func TestWrapText(t *testing.T) {
	for text, want := range map[string]string{
		"one two three":      "  one\n  two\n  three",
		"a b c d":            "  a b c\n  d",
		"":                   " ",
		"incomprehensible a": "  incomprehensible\n  a",
	} {
		if got := wrapText(text, 8); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

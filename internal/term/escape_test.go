package term

import (
	"encoding/json"
	"testing"
)

func TestControlCharactersAreEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"plain äöü 日本 🙂":      "plain äöü 日本 🙂",
		"a\x1b[2Jb\r\a\x7f":   `a\x1b[2Jb\r\a\x7f`,
		"two\nlines\tof text": "two\nlines\tof text",
		"\u009b31m\u0085":     `\u009b31m\u0085`,
		"\u202eexe.txt\u202c": `\u202eexe.txt\u202c`,
		"\u2066a\u2069\u200f": `\u2066a\u2069\u200f`,
		"a\u2028b":            `a\u2028b`,
		"raw \x9b31m":         "raw \uFFFD31m",
	} {
		if got := EscapeControls(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestEscapedJSONHasTheSameMeaning(t *testing.T) {
	for _, text := range []string{"plain", "\u009b\u007f", "\u202e and \u2069", "quote \" and \\ \u202e"} {
		plain, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		escaped := EscapeJSON(plain)
		if HasControls(string(escaped)) {
			t.Errorf("%q is left in %q", text, escaped)
		}
		var back map[string]string
		if err := json.Unmarshal(escaped, &back); err != nil || back[text] != text {
			t.Errorf("%s: got %q, %v", escaped, back, err)
		}
	}
}

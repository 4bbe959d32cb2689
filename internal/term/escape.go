package term

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// EscapeControls replaces control characters in untrusted text by escape sequences, so
// that they cannot affect the terminal or the order in which it shows text. It keeps line
// feeds and tabs. A byte that is not UTF-8 becomes U+FFFD: some terminals take it for a
// control character.
func EscapeControls(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isControl(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// EscapeJSON replaces the characters of EscapeControls in a JSON text by their escape
// sequences, which have the same meaning. In valid JSON they occur in strings only.
func EscapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, isControl) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if isControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// HasControls reports whether EscapeControls changes s.
func HasControls(s string) bool { return !utf8.ValidString(s) || strings.ContainsFunc(s, isControl) }

// isControl reports whether r is a control character of ASCII or C1, or changes the
// direction of text: its marks, embeddings, overrides and isolates. Line and paragraph
// separators of Unicode would break rows.
func isControl(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return unicode.IsControl(r)
}

package term

import (
	"strconv"
	"strings"
	"unicode"
)

// EscapeControls replaces control characters in untrusted text by escape sequences, so
// that they cannot affect the terminal. It keeps line feeds.
func EscapeControls(s string) string {
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

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

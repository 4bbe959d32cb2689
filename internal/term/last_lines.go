package term

import (
	"bytes"
	"strings"
)

// LastLines returns the last lines of untrusted text, at most count, without control characters. cut means that the text is
// the end of a longer one: its first line is left out unless it is the only one.
func LastLines(text []byte, cut bool, count int) []string {
	if _, rest, found := bytes.Cut(text, []byte("\n")); cut && found && len(rest) > 0 {
		text = rest
	}
	trimmed := strings.TrimRight(string(text), "\r\n")
	if trimmed == "" {
		return nil
	}
	lines := strings.Split(trimmed, "\n")
	lines = lines[max(0, len(lines)-count):]
	for i, line := range lines {
		lines[i] = EscapeControls(strings.TrimSuffix(line, "\r"))
	}
	return lines
}

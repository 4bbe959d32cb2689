package term

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// TerminalScreen describes the terminal of the output; it is zero for other outputs.
type TerminalScreen struct {
	Columns, Rows int // 0 if the output is not a terminal
	UseColor      bool
}

func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// RedrawScreen returns the escape sequences that replace the last text by this one. It
// overwrites line by line to avoid flicker and omits lines below the last row.
func RedrawScreen(text string, rows int, first bool) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) >= rows {
		lines = lines[:rows-1]
	}
	var out strings.Builder
	if first {
		out.WriteString("\x1b[2J")
	}
	out.WriteString("\x1b[H")
	for _, line := range lines {
		out.WriteString(strings.TrimSuffix(line, "\n") + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	return out.String()
}

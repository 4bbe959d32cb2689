package term

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// TerminalScreen is the terminal that output goes to, or what takes its place.
type TerminalScreen struct {
	Columns, Rows int // 0 where it is no terminal
	UseColor      bool
}

func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// RedrawScreen puts text where the last one stood, line by line so that nothing
// flickers, and no more lines than there are.
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

package term

import "strings"

// BarColumn is the column with bars, which are drawn with the symbols below.
const BarColumn = "PROGRESS"

// Symbols of a bar. They differ without colors too.
const (
	BarFinished = "█"
	BarActive   = "▒"
	BarIdle     = "·"
	BarFailed   = "×"
)

// colorizeBar colors the active part of a bar green and the failed part red.
func (s TerminalScreen) colorizeBar(bar string) string {
	var text strings.Builder
	for len(bar) > 0 {
		symbol := string([]rune(bar)[:1])
		run := bar[:len(bar)-len(strings.TrimLeft(bar, symbol))]
		text.WriteString(s.Colorize(map[string]TerminalColor{BarActive: green, BarFailed: red}[symbol], run))
		bar = bar[len(run):]
	}
	return text.String()
}

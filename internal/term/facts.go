package term

import (
	"fmt"
	"strings"
)

// LabeledFact is one line that describe prints: a name and a text.
type LabeledFact struct {
	Name, Text string
	// KeepLines keeps the lines of the text, each below the first, instead of joining them.
	KeepLines bool
}

// PrintFacts prints each fact on a line of its own. On a terminal it wraps long texts.
func (p *TablePrinter) PrintFacts(all []LabeledFact) {
	width := 11
	for _, f := range all {
		width = max(width, len(f.Name))
	}
	for _, f := range all {
		lines := []string{cellCleaner.Replace(EscapeControls(f.Text))}
		if f.KeepLines {
			text := strings.ReplaceAll(EscapeControls(f.Text), "\t", "    ")
			lines = strings.Split(strings.TrimRight(text, "\n"), "\n")
		}
		if f.Name == "state" {
			lines[0] = p.Colorize(stateColor(f.Text), lines[0])
		} else if p.Columns > 2*width && !p.Wide {
			if room := p.Columns - width - 1; f.KeepLines {
				lines = strings.Split(cellWidth.Wrap(strings.Join(lines, "\n"), room), "\n") // with indentation
			} else {
				lines = WrapAt(lines[0], room)
			}
		}
		text := strings.Join(lines, fmt.Sprintf("\n%*s", width+1, ""))
		fmt.Fprintf(p, "%-*s %s\n", width, f.Name, text)
	}
}

package term

import (
	"fmt"
	"strings"
)

// LabeledFact is one line that describe prints: a name and a text.
type LabeledFact struct{ Name, Text string }

// PrintFacts prints each fact on a line of its own. On a terminal it wraps long texts.
func (p *TablePrinter) PrintFacts(all []LabeledFact) {
	width := 11
	for _, f := range all {
		width = max(width, len(f.Name))
	}
	for _, f := range all {
		text := cellCleaner.Replace(EscapeControls(f.Text))
		if f.Name == "state" {
			text = p.Colorize(stateColor(f.Text), text)
		} else if p.Columns > 2*width && !p.Wide {
			text = strings.Join(WrapAt(text, p.Columns-width-1), fmt.Sprintf("\n%*s", width+1, ""))
		}
		fmt.Fprintf(p, "%-*s %s\n", width, f.Name, text)
	}
}

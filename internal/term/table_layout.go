package term

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// columnGap is between two columns.
	columnGap = 2
	// minNameWidth is how far a name is cut while something else may give way.
	minNameWidth = 12
	// minSentenceWidth is the part of a sentence that is enough to recognize it.
	minSentenceWidth = 30
)

// sentenceColumns are the columns that are read, not copied: they are cut at their
// end, others in the middle.
func sentenceColumns() []string {
	return []string{"WAITS", "NOTE", "MESSAGE", "REASON", "WHAT", "QUOTA", "HELD"}
}

// DropFirst is a printer that leaves columns out where a line does not fit the
// terminal, the first named ones first. -o wide has them all.
func (p *TablePrinter) DropFirst(columns ...string) *TablePrinter {
	with := *p
	with.droppable = columns
	return &with
}

// columnLayout says how wide columns become, 0 where one is left out.
type columnLayout struct {
	head      []string
	wanted    []int // as they would like to be
	empty     []bool
	droppable []string
	lineWidth int
}

// fitColumns leaves out what may be spared, then gives sentences what is left over,
// then cuts: names down to a dozen characters, sentences below what is
// readable, and at last all of them.
func (l *columnLayout) fitColumns() []int {
	least := slices.Clone(l.wanted)
	for i, name := range l.head {
		if slices.Contains(sentenceColumns(), name) {
			least[i] = min(least[i], minSentenceWidth)
		}
	}
	got := l.chooseColumns(least)
	for i := range got { // what is left over, to the first sentence first
		if got[i] > 0 {
			got[i] += min(l.wanted[i]-got[i], max(0, l.lineWidth-lineLength(got)))
		}
	}
	shrinkColumns(got, l.lineWidth, func(i int) int {
		if slices.Contains(sentenceColumns(), l.head[i]) {
			return minSentenceWidth
		}
		return minNameWidth
	})
	shrinkColumns(got, l.lineWidth, func(int) int { return 1 })
	for i := len(got) - 1; lineLength(got) > l.lineWidth && i > 0; i-- {
		got[i] = 0
	}
	return got
}

// chooseColumns has the widths of the columns that stay: all that cannot be spared and
// of the others, the more important before, those for which there is room. One
// that says nothing in any row is the least important.
func (l *columnLayout) chooseColumns(least []int) []int {
	order := slices.Clone(l.droppable)
	for i, name := range l.head {
		if l.empty[i] && i > 0 {
			order = slices.DeleteFunc(order, func(o string) bool { return o == name })
			order = append([]string{name}, order...)
		}
	}
	got := slices.Clone(least)
	for i, name := range l.head {
		if slices.Contains(order, name) {
			got[i] = 0
		}
	}
	if lineLength(got) == 0 {
		got[0] = least[0]
	}
	for _, name := range slices.Backward(order) {
		for i := range l.head {
			if l.head[i] != name || got[i] > 0 {
				continue
			}
			if got[i] = least[i]; lineLength(got) > l.lineWidth {
				got[i] = 0
			}
		}
	}
	return got
}

// lineLength is how long a line is.
func lineLength(widths []int) int {
	sum := 0
	for _, w := range widths {
		if w > 0 {
			sum += w + columnGap
		}
	}
	return max(0, sum-columnGap)
}

// shrinkColumns makes the widest column that is above its floor narrower, until a
// line fits or all are at theirs.
func shrinkColumns(widths []int, room int, floor func(i int) int) {
	for lineLength(widths) > room {
		widest := -1
		for i, w := range widths {
			if w > floor(i) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

// truncateCell shortens a cell: a sentence at its end, a name in the middle, for names
// often differ at their ends.
func truncateCell(cell, head string, width int) string {
	letters := []rune(cell)
	if len(letters) <= width {
		return cell
	}
	tail := 0
	if !slices.Contains(sentenceColumns(), head) && width >= 4 {
		tail = (width - 1) / 2
	}
	return string(letters[:width-1-tail]) + "…" + string(letters[len(letters)-tail:])
}

// WrapAt breaks a text into lines of at most so many characters, at blanks where
// it can.
func WrapAt(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		for {
			joined := word
			if line != "" {
				joined = line + " " + word
			}
			if utf8.RuneCountInString(joined) <= width {
				line = joined
				break
			}
			if line != "" {
				lines, line = append(lines, line), ""
				continue
			}
			letters := []rune(word)
			lines, word = append(lines, string(letters[:width])), string(letters[width:])
		}
	}
	return append(lines, line)
}

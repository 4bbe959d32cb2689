package term

import (
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

const (
	// columnGap is the number of spaces between two columns.
	columnGap = 2
	// minNameWidth is the least width of a name while other columns can shrink.
	minNameWidth = 12
	// minSentenceWidth is the least width at which a sentence is recognizable.
	minSentenceWidth = 30
)

// cellWidth measures and truncates texts by the columns that they take on a terminal:
// two for East Asian characters and emoji, none for combining marks. It does not depend
// on the locale.
var cellWidth = runewidth.Condition{StrictEmojiNeutral: true}

// sentenceColumns returns the columns with prose. Their cells are truncated at the end,
// those of other columns in the middle.
func sentenceColumns() []string {
	return []string{"WAITS", "NOTE", "MESSAGE", "REASON", "WHAT", "QUOTA", "HELD"}
}

// DropFirst returns a printer that drops columns if a row does not fit the terminal, in
// the given order. With -o wide it keeps all.
func (p *TablePrinter) DropFirst(columns ...string) *TablePrinter {
	with := *p
	with.droppable = columns
	return &with
}

// columnLayout computes the widths of the columns; width 0 drops a column.
type columnLayout struct {
	head      []string
	wanted    []int // widths without truncation
	empty     []bool
	droppable []string
	lineWidth int
}

// fitColumns returns the column widths for a narrow terminal. It drops columns, gives
// the remaining space to sentences, and then truncates: first names and sentences down
// to their least widths, then every column down to one character. At last it drops
// columns from the right.
func (l *columnLayout) fitColumns() []int {
	least := slices.Clone(l.wanted)
	for i, name := range l.head {
		if slices.Contains(sentenceColumns(), name) {
			least[i] = min(least[i], minSentenceWidth)
		}
	}
	got := l.chooseColumns(least)
	for i := range got { // the remaining space, from the first sentence on
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

// chooseColumns returns the widths of the columns that remain: all required columns
// and, while they fit, the droppable ones, the most important first. A column that is
// empty in every row is the least important.
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

// lineLength returns the length of a row with these column widths.
func lineLength(widths []int) int {
	sum := 0
	for _, w := range widths {
		if w > 0 {
			sum += w + columnGap
		}
	}
	return max(0, sum-columnGap)
}

// shrinkColumns narrows the widest column that exceeds its floor, one character at a
// time, until a row fits or all columns are at their floors.
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

// truncateCell truncates a cell: a sentence at its end, a name in the middle, because
// names often differ only at their ends.
func truncateCell(cell, head string, width int) string {
	tail := 0
	if !slices.Contains(sentenceColumns(), head) && width >= 4 {
		tail = (width - 1) / 2
	}
	if cellWidth.StringWidth(cell) <= width {
		return cell
	}
	return cellWidth.Truncate(cell, width-tail, "…") + cellWidth.TruncatePrefix(cell, tail, "")
}

// WrapAt wraps a text into lines of at most width columns, at spaces if possible.
func WrapAt(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if n := len(lines) - 1; n >= 0 && cellWidth.StringWidth(lines[n])+1+cellWidth.StringWidth(word) <= width {
			lines[n] += " " + word
			continue
		}
		lines = append(lines, strings.Split(cellWidth.Wrap(word, width), "\n")...)
	}
	return lines
}

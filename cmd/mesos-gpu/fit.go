package main

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// gap is between two columns.
	gap = 2
	// narrowest is how far a name is cut while something else may give way.
	narrowest = 12
	// readable is how much of a sentence tells what it is about.
	readable = 30
)

// sentences are the columns that are read, not copied: they are cut at their
// end, others in the middle.
func sentences() []string {
	return []string{"WAITS", "NOTE", "MESSAGE", "REASON", "WHAT", "QUOTA", "HELD"}
}

// spare is a printer that leaves columns out where a line does not fit the
// terminal, the first named ones first. -o wide has them all.
func (p *printer) spare(columns ...string) *printer {
	with := *p
	with.spared = columns
	return &with
}

// fitting says how wide columns become, 0 where one is left out.
type fitting struct {
	head   []string
	widths []int // as they would like to be
	empty  []bool
	spared []string
	room   int
}

// fit leaves out what may be spared, then gives sentences what is left over,
// then cuts: names down to a dozen characters, sentences below what is
// readable, and at last all of them.
func (l *fitting) fit() []int {
	least := slices.Clone(l.widths)
	for i, name := range l.head {
		if slices.Contains(sentences(), name) {
			least[i] = min(least[i], readable)
		}
	}
	got := l.kept(least)
	for i := range got { // what is left over, to the first sentence first
		if got[i] > 0 {
			got[i] += min(l.widths[i]-got[i], max(0, l.room-total(got)))
		}
	}
	shrink(got, l.room, func(i int) int {
		if slices.Contains(sentences(), l.head[i]) {
			return readable
		}
		return narrowest
	})
	shrink(got, l.room, func(int) int { return 1 })
	for i := len(got) - 1; total(got) > l.room && i > 0; i-- {
		got[i] = 0
	}
	return got
}

// kept has the widths of the columns that stay: all that cannot be spared and
// of the others, the more important before, those for which there is room. One
// that says nothing in any row is the least important.
func (l *fitting) kept(least []int) []int {
	order := slices.Clone(l.spared)
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
	if total(got) == 0 {
		got[0] = least[0]
	}
	for _, name := range slices.Backward(order) {
		for i := range l.head {
			if l.head[i] != name || got[i] > 0 {
				continue
			}
			if got[i] = least[i]; total(got) > l.room {
				got[i] = 0
			}
		}
	}
	return got
}

// total is how long a line is.
func total(widths []int) int {
	sum := 0
	for _, w := range widths {
		if w > 0 {
			sum += w + gap
		}
	}
	return max(0, sum-gap)
}

// shrink makes the widest column that is above its floor narrower, until a
// line fits or all are at theirs.
func shrink(widths []int, room int, floor func(i int) int) {
	for total(widths) > room {
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

// cut shortens a cell: a sentence at its end, a name in the middle, for names
// often differ at their ends.
func cut(cell, head string, width int) string {
	letters := []rune(cell)
	if len(letters) <= width {
		return cell
	}
	tail := 0
	if !slices.Contains(sentences(), head) && width >= 4 {
		tail = (width - 1) / 2
	}
	return string(letters[:width-1-tail]) + "…" + string(letters[len(letters)-tail:])
}

// wrapAt breaks a text into lines of at most so many characters, at blanks where
// it can.
func wrapAt(text string, width int) (lines []string) {
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

package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"mesos-gpu/job"
)

// printer writes tables for people.
type printer struct {
	io.Writer
	screen
	wide, bare bool
	spared     []string // see spare
	none       string   // said in place of a table without rows
}

func (a *app) printer() *printer {
	return &printer{Writer: a.out, screen: a.screen(), wide: a.format == asWide, bare: a.bare}
}

// column is one fact of each thing in a table.
type column[T any] struct {
	name string
	of   func(T) string
}

// tableOf prints things in columns, with -o wide also those in more.
func tableOf[T any](p *printer, things []T, columns []column[T], more ...column[T]) error {
	if p.wide {
		columns = append(columns[:len(columns):len(columns)], more...)
	}
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.name
	}
	rows := make([][]string, len(things))
	for r, thing := range things {
		for _, c := range columns {
			rows[r] = append(rows[r], c.of(thing))
		}
	}
	return p.table(head, rows)
}

// names are the columns'.
func names[T any](columns []column[T]) (list []string) {
	for _, c := range columns {
		list = append(list, c.name)
	}
	return list
}

// table prints a head and n rows, cells separated by tabs, in columns, of which
// those that are spared go first where a terminal is narrow.
func (a *app) table(head string, n int, row func(i int) string, spared ...string) error {
	rows := make([][]string, n)
	for i := range rows {
		rows[i] = strings.Split(row(i), "\t")
	}
	return a.printer().spare(spared...).table(strings.Split(head, "\t"), rows)
}

// cleaner keeps cells in their places.
var cleaner = strings.NewReplacer("\n", " ", "\t", " ")

func (p *printer) table(head []string, rows [][]string) error {
	if len(rows) == 0 && p.none != "" && !p.bare {
		_, err := fmt.Fprintln(p, p.none)
		return err
	}
	l := fitting{head: head, widths: make([]int, len(head)), empty: make([]bool, len(head)), spared: p.spared, room: p.columns}
	for i, name := range head {
		l.empty[i] = len(rows) > 0
		if !p.bare {
			l.widths[i] = utf8.RuneCountInString(name)
		}
	}
	for _, cells := range rows {
		for i := range cells {
			cells[i] = cleaner.Replace(printable(cells[i]))
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(cells[i]))
			l.empty[i] = l.empty[i] && (cells[i] == "" || cells[i] == "-")
		}
	}
	widths := l.widths
	if p.columns > 0 && !p.wide && total(widths) > p.columns {
		widths = l.fit()
	}
	var text strings.Builder
	if !p.bare {
		p.line(&text, widths, head, head)
	}
	for _, cells := range rows {
		p.line(&text, widths, head, cells)
	}
	_, err := io.WriteString(p, text.String())
	return err
}

// orSay is a printer that says so where a table has no rows: the head alone
// looks as if something were missing.
func (p *printer) orSay(none string) *printer {
	with := *p
	with.none = none
	return &with
}

// line writes one row; of states, by the head, it shows the colours.
func (p *printer) line(to *strings.Builder, widths []int, head, cells []string) {
	pad := 0 // which nothing ends a line with
	for i, cell := range cells {
		if widths[i] == 0 {
			continue
		}
		cell = strings.TrimRight(cut(cell, head[i], widths[i]), " ") // no line ends with blanks
		length := utf8.RuneCountInString(cell)
		if head[i] == "STATE" {
			cell = p.paint(stateColour(cell), cell)
		}
		if cell != "" {
			fmt.Fprintf(to, "%*s%s", pad, "", cell)
			pad = 0
		}
		pad += widths[i] - length + gap
	}
	to.WriteByte('\n')
}

// colour is a number of the terminal's eight.
type colour int

const (
	noColour colour = 0
	red      colour = 31
	green    colour = 32
	yellow   colour = 33
)

func (s screen) paint(c colour, text string) string {
	if !s.colour || c == noColour {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

// stateColour is red for what went wrong, green for what runs and yellow for
// what is on its way. What has ended well, or as people wanted, stays plain.
func stateColour(state string) colour {
	switch s := job.State(state); {
	case s == job.Failed || s == job.Refused || s == job.Lost || s == job.Unreachable:
		return red
	case s == job.Running:
		return green
	case s.Live():
		return yellow
	}
	return noColour
}

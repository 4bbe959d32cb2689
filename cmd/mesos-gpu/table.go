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

// table prints a head and n rows, cells separated by tabs, in columns.
func (a *app) table(head string, n int, row func(i int) string) error {
	rows := make([][]string, n)
	for i := range rows {
		rows[i] = strings.Split(row(i), "\t")
	}
	return a.printer().table(strings.Split(head, "\t"), rows)
}

// cleaner keeps cells in their places.
var cleaner = strings.NewReplacer("\n", " ", "\t", " ")

func (p *printer) table(head []string, rows [][]string) error {
	widths := make([]int, len(head))
	if !p.bare {
		for i, name := range head {
			widths[i] = utf8.RuneCountInString(name)
		}
	}
	for _, cells := range rows {
		for i := range cells {
			cells[i] = cleaner.Replace(printable(cells[i]))
			widths[i] = max(widths[i], utf8.RuneCountInString(cells[i]))
		}
	}
	if p.columns > 0 && !p.wide {
		narrow(widths, p.columns)
	}
	var text strings.Builder
	if !p.bare {
		p.line(&text, widths, nil, head)
	}
	for _, cells := range rows {
		p.line(&text, widths, head, cells)
	}
	_, err := io.WriteString(p, text.String())
	return err
}

const (
	// gap is between two columns.
	gap = 2
	// narrowest is how far a column is cut.
	narrowest = 12
)

// narrow makes the widest columns narrower until a line fits, as far as that
// leaves something to read. The first one stays: it is what people copy.
func narrow(widths []int, columns int) {
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for total > columns {
		widest := 0
		for i := 1; i < len(widths); i++ {
			if widths[i] > narrowest && (widest == 0 || widths[i] >= widths[widest]) {
				widest = i
			}
		}
		if widest == 0 {
			return
		}
		widths[widest]--
		total--
	}
}

// line writes one row; of states, by the head, it shows the colours.
func (p *printer) line(to *strings.Builder, widths []int, head, cells []string) {
	for len(cells) > 1 && cells[len(cells)-1] == "" {
		cells = cells[:len(cells)-1]
	}
	for i, cell := range cells {
		length := utf8.RuneCountInString(cell)
		if length > widths[i] {
			cell, length = string([]rune(cell)[:widths[i]-1])+"…", widths[i]
		}
		if head != nil && head[i] == "STATE" {
			cell = p.paint(stateColour(cell), cell)
		}
		to.WriteString(cell)
		if i < len(cells)-1 {
			fmt.Fprintf(to, "%*s", widths[i]-length+gap, "")
		}
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

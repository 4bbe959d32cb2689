package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"mesos-gpu/job"
)

// tablePrinter writes tables for people.
type tablePrinter struct {
	io.Writer
	terminalScreen
	wide, noHeaders bool
	droppable       []string // see spare
	emptyText       string   // said in place of a table without rows
}

func (a *cliApp) newPrinter() *tablePrinter {
	return &tablePrinter{Writer: a.stdout, terminalScreen: a.currentScreen(), wide: a.format == formatWide, noHeaders: a.noHeaders}
}

// tableColumn is one fact of each thing in a table.
type tableColumn[T any] struct {
	name  string
	value func(T) string
}

// printTable prints things in columns, with -o wide also those in more.
func printTable[T any](p *tablePrinter, things []T, columns []tableColumn[T], more ...tableColumn[T]) error {
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
			rows[r] = append(rows[r], c.value(thing))
		}
	}
	return p.writeTable(head, rows)
}

// columnNames are the columns'.
func columnNames[T any](columns []tableColumn[T]) (list []string) {
	for _, c := range columns {
		list = append(list, c.name)
	}
	return list
}

// printRows prints a head and n rows, cells separated by tabs, in columns, of which
// those that are spared go first where a terminal is narrow.
func (a *cliApp) printRows(head string, n int, row func(i int) string, spared ...string) error {
	rows := make([][]string, n)
	for i := range rows {
		rows[i] = strings.Split(row(i), "\t")
	}
	return a.newPrinter().dropFirst(spared...).writeTable(strings.Split(head, "\t"), rows)
}

// cellCleaner keeps cells in their places.
var cellCleaner = strings.NewReplacer("\n", " ", "\t", " ")

func (p *tablePrinter) writeTable(head []string, rows [][]string) error {
	if len(rows) == 0 && p.emptyText != "" && !p.noHeaders {
		_, err := fmt.Fprintln(p, p.emptyText)
		return err
	}
	l := columnLayout{head: head, wanted: make([]int, len(head)), empty: make([]bool, len(head)), droppable: p.droppable, lineWidth: p.columns}
	for i, name := range head {
		l.empty[i] = len(rows) > 0
		if !p.noHeaders {
			l.wanted[i] = utf8.RuneCountInString(name)
		}
	}
	for _, cells := range rows {
		for i := range cells {
			cells[i] = cellCleaner.Replace(escapeControls(cells[i]))
			l.wanted[i] = max(l.wanted[i], utf8.RuneCountInString(cells[i]))
			l.empty[i] = l.empty[i] && (cells[i] == "" || cells[i] == "-")
		}
	}
	widths := l.wanted
	if p.columns > 0 && !p.wide && lineLength(widths) > p.columns {
		widths = l.fitColumns()
	}
	var text strings.Builder
	if !p.noHeaders {
		p.writeLine(&text, widths, head, head)
	}
	for _, cells := range rows {
		p.writeLine(&text, widths, head, cells)
	}
	_, err := io.WriteString(p, text.String())
	return err
}

// withEmptyText is a printer that says so where a table has no rows: the head alone
// looks as if something were missing.
func (p *tablePrinter) withEmptyText(none string) *tablePrinter {
	with := *p
	with.emptyText = none
	return &with
}

// writeLine writes one row; of states, by the head, it shows the colours.
func (p *tablePrinter) writeLine(to *strings.Builder, widths []int, head, cells []string) {
	pad := 0 // which nothing ends a line with
	for i, cell := range cells {
		if widths[i] == 0 {
			continue
		}
		cell = strings.TrimRight(truncateCell(cell, head[i], widths[i]), " ") // no line ends with blanks
		length := utf8.RuneCountInString(cell)
		if head[i] == "STATE" {
			cell = p.colorize(stateColor(cell), cell)
		}
		if cell != "" {
			fmt.Fprintf(to, "%*s%s", pad, "", cell)
			pad = 0
		}
		pad += widths[i] - length + columnGap
	}
	to.WriteByte('\n')
}

// terminalColor is a number of the terminal's eight.
type terminalColor int

const (
	noColor terminalColor = 0
	red     terminalColor = 31
	green   terminalColor = 32
	yellow  terminalColor = 33
)

func (s terminalScreen) colorize(c terminalColor, text string) string {
	if !s.useColor || c == noColor {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

// stateColor is red for what went wrong, green for what runs and yellow for
// what is on its way. What has ended well, or as people wanted, stays plain.
func stateColor(state string) terminalColor {
	switch s := job.State(state); {
	case s == job.Failed || s == job.Refused || s == job.Lost || s == job.Unreachable:
		return red
	case s == job.Running:
		return green
	case s.IsLive():
		return yellow
	}
	return noColor
}

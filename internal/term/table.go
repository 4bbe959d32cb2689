// Package term formats output for users: tables that fit the terminal, labeled facts,
// colors, times and sizes. It does not depend on the scheduler, except for the job
// states that it colors. It escapes control characters in all output.
package term

import (
	"fmt"
	"io"
	"strings"

	"mesos-gpu/job"
)

// TablePrinter writes tables as text.
type TablePrinter struct {
	io.Writer
	TerminalScreen
	Wide, NoHeaders bool
	droppable       []string // set by DropFirst
	emptyText       string   // printed instead of a table without rows
}

// TableColumn is a column of a table: its header and the cell for an item.
type TableColumn[T any] struct {
	Name  string
	Value func(T) string
}

// PrintTable prints a row for each item. With -o wide it adds the columns in more.
func PrintTable[T any](p *TablePrinter, things []T, columns []TableColumn[T], more ...TableColumn[T]) error {
	if p.Wide {
		columns = append(columns[:len(columns):len(columns)], more...)
	}
	head := make([]string, len(columns))
	for i, c := range columns {
		head[i] = c.Name
	}
	rows := make([][]string, len(things))
	for r, thing := range things {
		for _, c := range columns {
			rows[r] = append(rows[r], c.Value(thing))
		}
	}
	return p.WriteTable(head, rows)
}

// ColumnNames returns the headers of the columns.
func ColumnNames[T any](columns []TableColumn[T]) (list []string) {
	for _, c := range columns {
		list = append(list, c.Name)
	}
	return list
}

// cellCleaner removes line feeds and tabs, which would break the layout.
var cellCleaner = strings.NewReplacer("\n", " ", "\t", " ")

func (p *TablePrinter) WriteTable(head []string, rows [][]string) error {
	if len(rows) == 0 && p.emptyText != "" && !p.NoHeaders {
		_, err := fmt.Fprintln(p, p.emptyText)
		return err
	}
	l := columnLayout{head: head, wanted: make([]int, len(head)), empty: make([]bool, len(head)), droppable: p.droppable, lineWidth: p.Columns}
	for i, name := range head {
		l.empty[i] = len(rows) > 0
		if !p.NoHeaders {
			l.wanted[i] = cellWidth.StringWidth(name)
		}
	}
	for _, cells := range rows {
		for i := range cells {
			cells[i] = cellCleaner.Replace(EscapeControls(cells[i]))
			l.wanted[i] = max(l.wanted[i], cellWidth.StringWidth(cells[i]))
			l.empty[i] = l.empty[i] && (cells[i] == "" || cells[i] == "-")
		}
	}
	widths := l.wanted
	if p.Columns > 0 && !p.Wide && lineLength(widths) > p.Columns {
		widths = l.fitColumns()
	}
	var text strings.Builder
	if !p.NoHeaders {
		p.writeLine(&text, widths, head, head)
	}
	for _, cells := range rows {
		p.writeLine(&text, widths, head, cells)
	}
	_, err := io.WriteString(p, text.String())
	return err
}

// WithEmptyText returns a printer that prints none instead of a table without rows.
func (p *TablePrinter) WithEmptyText(none string) *TablePrinter {
	with := *p
	with.emptyText = none
	return &with
}

// writeLine writes one row. It colors cells of the STATE column.
func (p *TablePrinter) writeLine(to *strings.Builder, widths []int, head, cells []string) {
	pad := 0 // pending spaces, not written at the end of a line
	for i, cell := range cells {
		if widths[i] == 0 {
			continue
		}
		cell = strings.TrimRight(truncateCell(cell, head[i], widths[i]), " ") // no trailing spaces
		length := cellWidth.StringWidth(cell)
		switch head[i] {
		case "STATE":
			cell = p.Colorize(stateColor(cell), cell)
		case BarColumn:
			cell = p.colorizeBar(cell)
		}
		if cell != "" {
			fmt.Fprintf(to, "%*s%s", pad, "", cell)
			pad = 0
		}
		pad += widths[i] - length + columnGap
	}
	to.WriteByte('\n')
}

// TerminalColor is the ANSI code of a foreground color; 0 is the default.
type TerminalColor int

const (
	noColor TerminalColor = 0
	red     TerminalColor = 31
	green   TerminalColor = 32
	yellow  TerminalColor = 33
)

func (s TerminalScreen) Colorize(c TerminalColor, text string) string {
	if !s.UseColor || c == noColor {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, text)
}

// stateColor returns red for failures, green for running tasks and yellow for other
// live states. Tasks that finished or were killed have no color.
func stateColor(state string) TerminalColor {
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

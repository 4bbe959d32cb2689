// Package peercases reads cases from the tests of other schedulers: agents, roles, running jobs, waiting jobs, and which
// of the jobs end. Tests play the same cases by one plan of the scheduler's core and on running clusters.
// framework/sched/placement/testdata/peer-cases.md has the cases and explains their notation.
package peercases

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Page is a page of cases: text with tables.
type Page struct {
	path  string
	lines []string
}

// Row is a row of a table.
type Row struct {
	line int
	// Cells are the texts of the row, without the spaces around them.
	Cells []string
}

// ReadPage reads a page of cases.
func ReadPage(t testing.TB, path string) *Page {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &Page{path: path, lines: strings.Split(string(page), "\n")}
}

// Rows returns the rows of all tables with these columns, from the top of the page. It fails the test if there are none.
func (p *Page) Rows(t testing.TB, columns ...string) (rows []Row) {
	t.Helper()
	inTable := false
	for i, line := range p.lines {
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		switch isHeader := slices.Equal(cells, columns); {
		case isHeader:
			inTable = true
		case inTable && !strings.HasPrefix(line, "|--"):
			rows = append(rows, Row{i, cells})
		}
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no cases with the columns %s", p.path, strings.Join(columns, ", "))
	}
	return rows
}

// SetRow replaces the text of a row by its cells.
func (p *Page) SetRow(r Row) { p.lines[r.line] = "| " + strings.Join(r.Cells, " | ") + " |" }

// Write writes the page to its file.
func (p *Page) Write() error { return os.WriteFile(p.path, []byte(strings.Join(p.lines, "\n")), 0o644) }

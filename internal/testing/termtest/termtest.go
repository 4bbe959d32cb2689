// Package termtest checks output to terminals in tests.
package termtest

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/mattn/go-runewidth"

	"mesos-gpu/internal/term"
)

// OpenTerminal returns both ends of a terminal with 10 rows: the user's, from which the
// test reads the output, and the program's.
func OpenTerminal(t *testing.T, columns uint16) (user, program *os.File) {
	t.Helper()
	user, program, err := pty.Open()
	if err != nil {
		t.Skipf("needs pseudo terminals: %v", err)
	}
	t.Cleanup(func() { user.Close(); program.Close() })
	if err := pty.Setsize(program, &pty.Winsize{Rows: 10, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	return user, program
}

// CheckTableFits prints a table at terminal widths from 40 to 200 columns. No line may be
// longer than the terminal, and no row may be missing.
func CheckTableFits(t *testing.T, rows int, print func(*term.TablePrinter) error) {
	t.Helper()
	complete := printTable(t, 0, print)
	for columns := 40; columns <= 200; columns++ {
		text := printTable(t, columns, print)
		for line := range strings.Lines(text) {
			if n := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); n > columns {
				t.Fatalf("%d columns: a line has %d: %s", columns, n, line)
			}
		}
		if got := strings.Count(text, "\n"); got < strings.Count(complete, "\n") || got < rows+1 {
			t.Fatalf("%d columns: %d lines:\n%s", columns, got, text)
		}
	}
}

// CheckShownAt checks that a table on a terminal of that width contains the texts.
func CheckShownAt(t *testing.T, columns int, print func(*term.TablePrinter) error, texts ...string) {
	t.Helper()
	shown := printTable(t, columns, print)
	for _, text := range texts {
		if !strings.Contains(shown, text) {
			t.Errorf("%d columns: no %q in\n%s", columns, text, shown)
		}
	}
}

func printTable(t *testing.T, columns int, print func(*term.TablePrinter) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := print(&term.TablePrinter{Writer: &out, TerminalScreen: term.TerminalScreen{Columns: columns}}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

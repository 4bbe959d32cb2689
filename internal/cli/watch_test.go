package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
	"mesos-gpu/internal/testing/termtest"
)

// watchWith watches a command with these results, and is then interrupted.
func watchWith(t *testing.T, a *App, answers ...any) error {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	return a.watchResult(ctx, func(context.Context) (CommandResult, error) {
		if len(answers) == 0 {
			interrupt()
			return CommandResult{}, ctx.Err()
		}
		next := answers[0]
		answers = answers[1:]
		if err, bad := next.(error); bad {
			return CommandResult{}, err
		}
		return CommandResult{Data: next, Print: func(p *term.TablePrinter) error { _, err := fmt.Fprintln(p, next); return err }}, nil
	})
}

// Without a terminal each change is printed. A temporary error is reported once; a permanent
// one ends the command.
func TestWatch(t *testing.T) {
	gone, temporary := api.UnknownJob("a"), errors.New("no response")
	for _, test := range []struct {
		name, format string
		answers      []any
		out, err     string
		ends         error
	}{
		{"changes are printed", "", []any{"one", "one", "two", "one"}, "one\n\ntwo\n\none\n", "", nil},
		{"JSON has one value for each change", FormatJSON, []any{1, 1, 2}, "1\n2\n", "", nil},
		{"YAML has one document for each change", FormatYAML, []any{1, 1, 2}, "1\n---\n2\n", "", nil},
		{"an outage is reported once", "", []any{"one", temporary, temporary, "two", temporary}, "one\n\ntwo\n", strings.Repeat("mesos-gpu: no response\n", 2), nil},
		{"an error of the first request ends it", "", []any{temporary}, "", "", temporary},
		{"a permanent error ends it", "", []any{"one", gone, "two"}, "one\n", "", gone},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				a := &App{ProcessIO: ProcessIO{Stdout: &out, Stderr: &errs}, Format: test.format, ForPrograms: test.format != ""}
				began := time.Now()
				err := watchWith(t, a, test.answers...)
				if !errors.Is(err, test.ends) || out.String() != test.out || errs.String() != test.err {
					t.Errorf("got %v, %q and %q", err, &out, &errs)
				}
				if took := time.Since(began); test.ends == nil && took != time.Duration(len(test.answers))*watchInterval {
					t.Errorf("%d answers took %s", len(test.answers), took)
				}
			})
		})
	}
}

// On a terminal each state replaces the last one and is cut to the size of the screen.
func TestWatchRedraws(t *testing.T) {
	if got, want := term.RedrawScreen("a\nbb\n", 10, true), "\x1b[2J\x1b[Ha\x1b[K\nbb\x1b[K\n\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := term.RedrawScreen("a\nb\nc\n", 3, false), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	seen, tty := termtest.OpenTerminal(t, 40)
	a := &App{ProcessIO: ProcessIO{Stdout: tty, Stderr: io.Discard, Getenv: func(string) string { return "" }}}
	if _, err := a.printFrame(CommandResult{Data: nil, Print: func(p *term.TablePrinter) error {
		return p.WriteTable([]string{"JOB", "WAITS"}, [][]string{{"a", strings.Repeat("x", 80)}})
	}}, "", true); err != nil {
		t.Fatal(err)
	}
	tty.WriteString("end\n")
	var lines []string
	for in := bufio.NewScanner(seen); in.Scan() && in.Text() != "\x1b[Jend"; {
		lines = append(lines, in.Text())
	}
	if want := "a    " + strings.Repeat("x", 34) + "…\x1b[K"; len(lines) != 2 || lines[1] != want {
		t.Errorf("got %q, want %q", lines, want)
	}
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
)

// watchInterval is how often what is watched is fetched.
const watchInterval = 2 * time.Second

// commandResult is something fetched: the data for programs, and how people see it.
type commandResult struct {
	data  any
	print func(*tablePrinter) error
}

// fetchFunc gets what a command shows.
type fetchFunc func(ctx context.Context, api *client.Client, args []string) (commandResult, error)

// newShowCommand makes a command that fetches something and prints it, once or, with
// --watch, again and again.
func (a *cliApp) newShowCommand(name, short string, wants []string, get fetchFunc) *cobra.Command {
	watched := false
	c := &cobra.Command{
		Use: strings.Join(append([]string{name}, wants...), " "), Short: short, Args: requireArgs(wants...),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.newClient()
			if err != nil {
				return err
			}
			if watched {
				return a.watchResult(c.Context(), func(ctx context.Context) (commandResult, error) { return get(ctx, api, args) })
			}
			what, err := get(c.Context(), api, args)
			if err != nil {
				return err
			}
			return a.printResult(what, a.newPrinter())
		},
	}
	a.addOutputFlag(c)
	c.Flags().BoolVarP(&watched, "watch", "w", false, fmt.Sprintf("show it anew every %g s until interrupted", watchInterval.Seconds()))
	return c
}

func (a *cliApp) printResult(what commandResult, p *tablePrinter) error {
	if a.forPrograms {
		return a.writeEncoded(p, what.data)
	}
	return what.print(p)
}

// watchResult shows something until ctx ends: on a terminal always in the same
// place, elsewhere one after the other, as often as it has changed. What may
// pass by itself it says, and goes on.
func (a *cliApp) watchResult(ctx context.Context, get func(context.Context) (commandResult, error)) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	last, said := "", ""
	for first := true; ; first = false {
		what, err := get(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
			if last, err = a.printFrame(what, last, first); err != nil {
				return err
			}
		case first || !client.IsTemporary(err):
			return err
		case said != err.Error():
			said = err.Error()
			fmt.Fprintf(a.stderr, "mesos-gpu: %s\n", escapeControls(said))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// printFrame prints one state of what is watched, and returns it as text.
func (a *cliApp) printFrame(what commandResult, last string, first bool) (string, error) {
	p := a.newPrinter()
	var text bytes.Buffer
	p.Writer = &text
	if err := a.printResult(what, p); err != nil {
		return last, err
	}
	now := text.String()
	switch {
	case p.columns > 0:
		_, err := io.WriteString(a.stdout, redrawScreen(now, p.rows, first))
		return now, err
	case now == last:
		return last, nil
	case !first && !a.forPrograms:
		now = "\n" + now
	case !first && a.format == formatYAML:
		now = "---\n" + now
	}
	_, err := io.WriteString(a.stdout, now)
	return text.String(), err
}

// redrawScreen puts text where the last one stood, line by line so that nothing
// flickers, and no more lines than there are.
func redrawScreen(text string, rows int, first bool) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) >= rows {
		lines = lines[:rows-1]
	}
	var out strings.Builder
	if first {
		out.WriteString("\x1b[2J")
	}
	out.WriteString("\x1b[H")
	for _, line := range lines {
		out.WriteString(strings.TrimSuffix(line, "\n") + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	return out.String()
}

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

// watchEvery is how often what is watched is fetched.
const watchEvery = 2 * time.Second

// shown is something fetched: the data for programs, and how people see it.
type shown struct {
	data  any
	print func(*printer) error
}

// fetch gets what a command shows.
type fetch func(ctx context.Context, api *client.Client, args []string) (shown, error)

// show makes a command that fetches something and prints it, once or, with
// --watch, again and again.
func (a *app) show(name, short string, wants []string, get fetch) *cobra.Command {
	watched := false
	c := &cobra.Command{
		Use: strings.Join(append([]string{name}, wants...), " "), Short: short, Args: args(wants...),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.client()
			if err != nil {
				return err
			}
			if watched {
				return a.watch(c.Context(), func(ctx context.Context) (shown, error) { return get(ctx, api, args) })
			}
			what, err := get(c.Context(), api, args)
			if err != nil {
				return err
			}
			return a.print(what, a.printer())
		},
	}
	a.outputFlag(c)
	c.Flags().BoolVarP(&watched, "watch", "w", false, fmt.Sprintf("show it anew every %g s until interrupted", watchEvery.Seconds()))
	return c
}

func (a *app) print(what shown, p *printer) error {
	if a.json {
		return a.writeData(p, what.data)
	}
	return what.print(p)
}

// watch shows something until ctx ends: on a terminal always in the same
// place, elsewhere one after the other, as often as it has changed. What may
// pass by itself it says, and goes on.
func (a *app) watch(ctx context.Context, get func(context.Context) (shown, error)) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	last, said := "", ""
	for first := true; ; first = false {
		what, err := get(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
			if last, err = a.frame(what, last, first); err != nil {
				return err
			}
		case first || !client.Temporary(err):
			return err
		case said != err.Error():
			said = err.Error()
			fmt.Fprintf(a.err, "mesos-gpu: %s\n", printable(said))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// frame prints one state of what is watched, and returns it as text.
func (a *app) frame(what shown, last string, first bool) (string, error) {
	p := a.printer()
	var text bytes.Buffer
	p.Writer = &text
	if err := a.print(what, p); err != nil {
		return last, err
	}
	now := text.String()
	switch {
	case p.columns > 0:
		_, err := io.WriteString(a.out, redraw(now, p.rows, first))
		return now, err
	case now == last:
		return last, nil
	case !first && !a.json:
		now = "\n" + now
	case !first && a.format == asYAML:
		now = "---\n" + now
	}
	_, err := io.WriteString(a.out, now)
	return text.String(), err
}

// redraw puts text where the last one stood, line by line so that nothing
// flickers, and no more lines than there are.
func redraw(text string, rows int, first bool) string {
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

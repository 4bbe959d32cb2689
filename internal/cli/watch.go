package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
	"mesos-gpu/internal/term"
)

// WatchInterval is how often what is watched is fetched.
const WatchInterval = 2 * time.Second

// CommandResult is something fetched: the data for programs, and how people see it.
type CommandResult struct {
	Data  any
	Print func(*term.TablePrinter) error
}

// fetchFunc gets what a command shows.
type fetchFunc func(ctx context.Context, api *client.Client, args []string) (CommandResult, error)

// NewShowCommand makes a command that fetches something and prints it, once or, with
// --watch, again and again.
func (a *App) NewShowCommand(name, short string, wants []string, get fetchFunc) *cobra.Command {
	watched := false
	c := &cobra.Command{
		Use: strings.Join(append([]string{name}, wants...), " "), Short: short, Args: RequireArgs(wants...),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			if watched {
				return a.WatchResult(c.Context(), func(ctx context.Context) (CommandResult, error) { return get(ctx, api, args) })
			}
			what, err := get(c.Context(), api, args)
			if err != nil {
				return err
			}
			return a.PrintResult(what, a.NewPrinter())
		},
	}
	a.AddOutputFlag(c)
	c.Flags().BoolVarP(&watched, "watch", "w", false, fmt.Sprintf("show it anew every %g s until interrupted", WatchInterval.Seconds()))
	return c
}

func (a *App) PrintResult(what CommandResult, p *term.TablePrinter) error {
	if a.ForPrograms {
		return a.writeEncoded(p, what.Data)
	}
	return what.Print(p)
}

// WatchResult shows something until ctx ends: on a terminal always in the same
// place, elsewhere one after the other, as often as it has changed. What may
// pass by itself it says, and goes on.
func (a *App) WatchResult(ctx context.Context, get func(context.Context) (CommandResult, error)) error {
	tick := time.NewTicker(WatchInterval)
	defer tick.Stop()
	last, said := "", ""
	for first := true; ; first = false {
		what, err := get(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			said = ""
			if last, err = a.PrintFrame(what, last, first); err != nil {
				return err
			}
		case first || !client.IsTemporary(err):
			return err
		case said != err.Error():
			said = err.Error()
			fmt.Fprintf(a.Stderr, "mesos-gpu: %s\n", term.EscapeControls(said))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// PrintFrame prints one state of what is watched, and returns it as text.
func (a *App) PrintFrame(what CommandResult, last string, first bool) (string, error) {
	p := a.NewPrinter()
	var text bytes.Buffer
	p.Writer = &text
	if err := a.PrintResult(what, p); err != nil {
		return last, err
	}
	now := text.String()
	switch {
	case p.Columns > 0:
		_, err := io.WriteString(a.Stdout, term.RedrawScreen(now, p.Rows, first))
		return now, err
	case now == last:
		return last, nil
	case !first && !a.ForPrograms:
		now = "\n" + now
	case !first && a.Format == FormatYAML:
		now = "---\n" + now
	}
	_, err := io.WriteString(a.Stdout, now)
	return text.String(), err
}

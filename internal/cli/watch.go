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

// watchInterval is the interval between two requests of --watch.
const watchInterval = 2 * time.Second

// CommandResult is the result of a command: the data for machine-readable formats and
// a function that prints it as text.
type CommandResult struct {
	Data  any
	Print func(*term.TablePrinter) error
}

// fetchFunc fetches the result of a command.
type fetchFunc func(ctx context.Context, api *client.Client, args []string) (CommandResult, error)

// NewShowCommand returns a command that fetches a result and prints it: once, or
// repeatedly with --watch.
func (a *App) NewShowCommand(name, short string, wants []string, get fetchFunc) *cobra.Command {
	watched := false
	c := &cobra.Command{
		Use: strings.Join(append([]string{name}, wants...), " "), Short: short, Args: RequireArgs(wants...),
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, args []string) error {
			if watched {
				return a.watchResult(ctx, func(ctx context.Context) (CommandResult, error) { return get(ctx, api, args) })
			}
			what, err := get(ctx, api, args)
			if err != nil {
				return err
			}
			return a.PrintResult(what, a.NewPrinter())
		}),
	}
	a.AddOutputFlag(c)
	c.Flags().BoolVarP(&watched, "watch", "w", false, fmt.Sprintf("refresh every %g s until interrupted", watchInterval.Seconds()))
	return c
}

func (a *App) PrintResult(what CommandResult, p *term.TablePrinter) error {
	if a.ForPrograms {
		return a.writeEncoded(p, what.Data)
	}
	return what.Print(p)
}

// watchResult prints the result repeatedly until ctx ends. On a terminal it redraws
// in place; otherwise it prints each changed result below the last. It reports
// temporary errors on standard error and continues.
func (a *App) watchResult(ctx context.Context, get func(context.Context) (CommandResult, error)) error {
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
			fmt.Fprintf(a.Stderr, "mesos-gpu: %s\n", term.EscapeControls(said))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// printFrame prints one result and returns its text, which the caller passes as last
// next time.
func (a *App) printFrame(what CommandResult, last string, first bool) (string, error) {
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

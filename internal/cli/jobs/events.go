package jobs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

func (a *jobCommands) eventsCommand() *cobra.Command {
	follow := false
	c := &cobra.Command{
		Use: "events [JOB]", Short: "Show the history of a job, or the last change of each task, and follow changes", Args: cli.AtMost("JOB"),
		Long: "Show the history of a job, the oldest event first: by whom it was submitted, edited, held, released, queued again, applied and scaled,\n" +
			"and when and why each attempt of its tasks was placed, started, stopped and ended. Without JOB, show the last change of each task.\n" +
			"With --follow, later changes of the tasks are printed as they happen, through restarts of the scheduler, until interrupted. With -o json there is one event a line.",
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, names []string) error {
			name := ""
			if len(names) > 0 {
				name = names[0]
			}
			return a.printEvents(ctx, api, name, follow)
		}),
	}
	a.AddOutputFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print later changes as they happen")
	return c
}

// printEvents prints the past changes, of a single job all of them, and with follow new
// ones. It reads the present states from the jobs, because the event stream does not mark
// where the present states end and new changes start.
func (a *jobCommands) printEvents(ctx context.Context, c *client.Client, name string, follow bool) error {
	past, err := lastChanges(ctx, c, name)
	if err != nil {
		return err
	}
	seen := map[string]api.TaskEvent{}
	for _, ev := range past {
		seen[ev.Task] = ev
	}
	if name != "" {
		history, err := c.GetJobHistory(ctx, name, api.MaxPageLimit)
		if err != nil {
			return err
		}
		if past = history.Events; history.Omitted > 0 {
			fmt.Fprintf(a.Stderr, "mesos-gpu: %d earlier events are omitted\n", history.Omitted)
		}
		for _, ev := range past {
			if ev.Task != "" {
				seen[ev.Task] = ev
			}
		}
	}
	width, err := a.printPastEvents(past, follow)
	if err != nil {
		return err
	}
	if !follow {
		return nil
	}
	defer printConnectionLosses(c, &syncWriter{to: a.Stderr})()
	for ev, err := range c.FollowEvents(ctx, name) {
		if err != nil {
			return fmt.Errorf("follow events: %w", err)
		}
		if old, ok := seen[ev.Task]; ok {
			delete(seen, ev.Task)
			if old.State == ev.State && old.Time.Equal(ev.Time) {
				continue
			}
		}
		if err := a.printEvent(ev, width); err != nil {
			return err
		}
	}
	return nil
}

// lastChanges returns the last state change of every task, in order of time.
func lastChanges(ctx context.Context, c *client.Client, name string) ([]api.TaskEvent, error) {
	jobs, err := jobsNamed(ctx, c, name)
	if err != nil {
		return nil, err
	}
	var events []api.TaskEvent
	for i := range jobs {
		for _, t := range jobs[i].Tasks {
			events = append(events, api.TaskEvent{Time: t.Changed, Job: t.Job, Task: t.ID, State: t.State, Message: t.Message})
		}
	}
	slices.SortStableFunc(events, func(x, y api.TaskEvent) int { return x.Time.Compare(y.Time) })
	return events, nil
}

// jobsNamed returns one job, or all jobs if name is empty.
func jobsNamed(ctx context.Context, c *client.Client, name string) ([]api.JobView, error) {
	if name == "" {
		return c.ListJobs(ctx)
	}
	view, err := c.GetJob(ctx, name)
	return []api.JobView{view}, err
}

// printEvent prints one event. width is the width of the task column, so that the row
// aligns with earlier ones.
func (a *jobCommands) printEvent(ev api.TaskEvent, width int) error {
	switch a.Format {
	case cli.FormatJSON:
		return a.PrintJSONLine(ev)
	case cli.FormatYAML:
		if _, err := io.WriteString(a.Stdout, "---\n"); err != nil {
			return err
		}
		return a.PrintJSON(ev)
	}
	p := a.NewPrinter()
	p.NoHeaders = true
	return printEventRows(p, []api.TaskEvent{ev}, width)
}

// printPastEvents prints the events that have already occurred and returns the width
// of their longest task id, in characters.
func (a *jobCommands) printPastEvents(past []api.TaskEvent, follow bool) (width int, err error) {
	for _, ev := range past {
		width = max(width, utf8.RuneCountInString(eventSubject(&ev)))
	}
	if !a.ForPrograms {
		p := a.NewPrinter()
		if !follow {
			p = p.WithEmptyText("No task is remembered.")
		}
		return width, printEventRows(p, past, width)
	}
	for _, ev := range past {
		if err := a.printEvent(ev, width); err != nil {
			return width, err
		}
	}
	return width, nil
}

// eventSubject returns the task of an event, or the job that was submitted or changed.
func eventSubject(ev *api.TaskEvent) string { return cmp.Or(ev.Task, ev.Job) }

// stateWidth is the length of the longest state, UNREACHABLE. It aligns later rows
// with earlier ones.
const stateWidth = 11

func printEventRows(p *term.TablePrinter, events []api.TaskEvent, taskWidth int) error {
	columns := []term.TableColumn[api.TaskEvent]{
		{Name: "TIME", Value: func(ev api.TaskEvent) string { return ev.Time.Format(time.RFC3339) }},
		{Name: "TASK", Value: func(ev api.TaskEvent) string { return fmt.Sprintf("%-*s", taskWidth, eventSubject(&ev)) }},
		{Name: "STATE", Value: func(ev api.TaskEvent) string {
			return fmt.Sprintf("%-*s", stateWidth, term.DashIfEmpty(string(ev.State)))
		}},
		{Name: "MESSAGE", Value: func(ev api.TaskEvent) string { return ev.Message }},
	}
	if p.Wide {
		columns = slices.Insert(columns, 2, term.TableColumn[api.TaskEvent]{Name: "JOB", Value: func(ev api.TaskEvent) string { return ev.Job }})
	}
	return term.PrintTable(p.DropFirst("TIME"), events, columns)
}

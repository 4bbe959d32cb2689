package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
)

func (a *cliApp) eventsCommand() *cobra.Command {
	follow := false
	c := &cobra.Command{
		Use: "events [JOB]", Short: "Show how tasks have changed last and, followed, each change as it comes", Args: atMost("JOB"),
		Long: "Show the last change of each task, of all jobs or of one, the oldest first. With --follow each change follows as it comes,\n" +
			"through restarts of the scheduler, until interrupted. With -o json there is one event a line.",
		RunE: func(c *cobra.Command, names []string) error {
			api, err := a.newClient()
			if err != nil {
				return err
			}
			name := ""
			if len(names) > 0 {
				name = names[0]
			}
			return a.printEvents(c.Context(), api, name, follow)
		},
	}
	a.addOutputFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each change as it comes")
	return c
}

// printEvents takes the states of now from the jobs: in the stream nothing tells
// where they end.
func (a *cliApp) printEvents(ctx context.Context, c *client.Client, name string, follow bool) error {
	past, err := lastChanges(ctx, c, name)
	if err != nil {
		return err
	}
	seen := map[string]api.TaskEvent{}
	for _, ev := range past {
		seen[ev.Task] = ev
	}
	width, err := a.printPastEvents(past, follow)
	if err != nil {
		return err
	}
	if !follow {
		return nil
	}
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

// lastChanges are the last ones of all tasks, by time.
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

// jobsNamed is one job, or all where name is empty.
func jobsNamed(ctx context.Context, c *client.Client, name string) ([]api.JobView, error) {
	if name == "" {
		return c.ListJobs(ctx)
	}
	view, err := c.GetJob(ctx, name)
	return []api.JobView{view}, err
}

// printEvent prints one, below others of whose tasks the longest id is so wide.
func (a *cliApp) printEvent(ev api.TaskEvent, width int) error {
	switch a.format {
	case formatJSON:
		return json.NewEncoder(a.stdout).Encode(ev)
	case formatYAML:
		if _, err := io.WriteString(a.stdout, "---\n"); err != nil {
			return err
		}
		return a.printJSON(ev)
	}
	p := a.newPrinter()
	p.noHeaders = true
	return printEventRows(p, []api.TaskEvent{ev}, width)
}

// printPastEvents prints those that are there already, and returns how wide their
// tasks' ids are.
func (a *cliApp) printPastEvents(past []api.TaskEvent, follow bool) (width int, err error) {
	for _, ev := range past {
		width = max(width, utf8.RuneCountInString(ev.Task))
	}
	if !a.forPrograms {
		p := a.newPrinter()
		if !follow {
			p = p.withEmptyText("No task is remembered.")
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

// stateWidth is as long as UNREACHABLE: lines that come later stand below
// those that are there.
const stateWidth = 11

func printEventRows(p *tablePrinter, events []api.TaskEvent, taskWidth int) error {
	columns := []tableColumn[api.TaskEvent]{
		{"TIME", func(ev api.TaskEvent) string { return ev.Time.Format(time.RFC3339) }},
		{"TASK", func(ev api.TaskEvent) string { return fmt.Sprintf("%-*s", taskWidth, ev.Task) }},
		{"STATE", func(ev api.TaskEvent) string { return fmt.Sprintf("%-*s", stateWidth, ev.State) }},
		{"MESSAGE", func(ev api.TaskEvent) string { return ev.Message }},
	}
	if p.wide {
		columns = slices.Insert(columns, 2, tableColumn[api.TaskEvent]{"JOB", func(ev api.TaskEvent) string { return ev.Job }})
	}
	return printTable(p.dropFirst("TIME"), events, columns)
}

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

func (a *app) eventsCommand() *cobra.Command {
	follow := false
	c := &cobra.Command{
		Use: "events [JOB]", Short: "Show how tasks have changed last and, followed, each change as it comes", Args: atMost("JOB"),
		Long: "Show the last change of each task, of all jobs or of one, the oldest first. With --follow each change follows as it comes,\n" +
			"through restarts of the scheduler, until interrupted. With -o json there is one event a line.",
		RunE: func(c *cobra.Command, names []string) error {
			api, err := a.client()
			if err != nil {
				return err
			}
			name := ""
			if len(names) > 0 {
				name = names[0]
			}
			return a.events(c.Context(), api, name, follow)
		},
	}
	a.outputFlag(c)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each change as it comes")
	return c
}

// events takes the states of now from the jobs: in the stream nothing tells
// where they end.
func (a *app) events(ctx context.Context, c *client.Client, name string, follow bool) error {
	past, err := changes(ctx, c, name)
	if err != nil {
		return err
	}
	seen := map[string]api.Event{}
	for _, ev := range past {
		seen[ev.Task] = ev
	}
	width, err := a.pastEvents(past, follow)
	if err != nil {
		return err
	}
	if !follow {
		return nil
	}
	for ev, err := range c.Follow(ctx, name) {
		if err != nil {
			return fmt.Errorf("follow events: %w", err)
		}
		if old, ok := seen[ev.Task]; ok {
			delete(seen, ev.Task)
			if old.State == ev.State && old.Time.Equal(ev.Time) {
				continue
			}
		}
		if err := a.event(ev, width); err != nil {
			return err
		}
	}
	return nil
}

// changes are the last ones of all tasks, by time.
func changes(ctx context.Context, c *client.Client, name string) ([]api.Event, error) {
	jobs, err := jobsNamed(ctx, c, name)
	if err != nil {
		return nil, err
	}
	var events []api.Event
	for i := range jobs {
		for _, t := range jobs[i].Tasks {
			events = append(events, api.Event{Time: t.Changed, Job: t.Job, Task: t.ID, State: t.State, Message: t.Message})
		}
	}
	slices.SortStableFunc(events, func(x, y api.Event) int { return x.Time.Compare(y.Time) })
	return events, nil
}

// jobsNamed is one job, or all where name is empty.
func jobsNamed(ctx context.Context, c *client.Client, name string) ([]api.JobView, error) {
	if name == "" {
		return c.Jobs(ctx)
	}
	view, err := c.Job(ctx, name)
	return []api.JobView{view}, err
}

// event prints one, below others of whose tasks the longest id is so wide.
func (a *app) event(ev api.Event, width int) error {
	switch a.format {
	case asJSON:
		return json.NewEncoder(a.out).Encode(ev)
	case asYAML:
		if _, err := io.WriteString(a.out, "---\n"); err != nil {
			return err
		}
		return a.printJSON(ev)
	}
	p := a.printer()
	p.bare = true
	return listEvents(p, []api.Event{ev}, width)
}

// pastEvents prints those that are there already, and returns how wide their
// tasks' ids are.
func (a *app) pastEvents(past []api.Event, follow bool) (width int, err error) {
	for _, ev := range past {
		width = max(width, utf8.RuneCountInString(ev.Task))
	}
	if !a.json {
		p := a.printer()
		if !follow {
			p = p.orSay("No task is remembered.")
		}
		return width, listEvents(p, past, width)
	}
	for _, ev := range past {
		if err := a.event(ev, width); err != nil {
			return width, err
		}
	}
	return width, nil
}

// longestState is as long as UNREACHABLE: lines that come later stand below
// those that are there.
const longestState = 11

func listEvents(p *printer, events []api.Event, taskWidth int) error {
	columns := []column[api.Event]{
		{"TIME", func(ev api.Event) string { return ev.Time.Format(time.RFC3339) }},
		{"TASK", func(ev api.Event) string { return fmt.Sprintf("%-*s", taskWidth, ev.Task) }},
		{"STATE", func(ev api.Event) string { return fmt.Sprintf("%-*s", longestState, ev.State) }},
		{"MESSAGE", func(ev api.Event) string { return ev.Message }},
	}
	if p.wide {
		columns = slices.Insert(columns, 2, column[api.Event]{"JOB", func(ev api.Event) string { return ev.Job }})
	}
	return tableOf(p.spare("TIME"), events, columns)
}

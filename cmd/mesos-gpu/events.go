package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

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
		if err := a.event(ev); err != nil {
			return err
		}
		seen[ev.Task] = ev
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
		if err := a.event(ev); err != nil {
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

func (a *app) event(ev api.Event) error {
	switch a.format {
	case asJSON:
		return json.NewEncoder(a.out).Encode(ev)
	case asYAML:
		if _, err := io.WriteString(a.out, "---\n"); err != nil {
			return err
		}
		return a.printJSON(ev)
	}
	line := fmt.Sprintf("%s %s %s", ev.Time.Format(time.RFC3339), ev.Task, a.screen().paint(stateColour(string(ev.State)), string(ev.State)))
	if ev.Message != "" {
		line += ": " + printable(cleaner.Replace(ev.Message))
	}
	_, err := fmt.Fprintln(a.out, line)
	return err
}

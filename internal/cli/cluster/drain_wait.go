package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
)

// drainInterval is the interval at which drain --wait reads the tasks.
const drainInterval = time.Second

// addDrainWait adds the flags with which drain waits until the agents have no tasks.
func (a *clusterCommands) addDrainWait(drain *cobra.Command) {
	wait, limit, start := false, time.Duration(0), drain.RunE
	drain.Flags().BoolVar(&wait, "wait", false, "wait until this scheduler has no tasks on the agents")
	drain.Flags().DurationVar(&limit, "timeout", 0, "with --wait: exit with 124 after this time; the agents stay drained; 0 waits without limit")
	drain.RunE = func(c *cobra.Command, names []string) error {
		if limit != 0 && !wait {
			return &cli.UsageError{Err: errors.New("--timeout is for --wait")}
		}
		if err := start(c, names); err != nil || !wait {
			return err
		}
		scheduler, err := a.NewClient()
		if err != nil {
			return err
		}
		ctx := c.Context()
		if limit > 0 {
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			ctx = limited
		}
		return a.awaitDrained(ctx, scheduler, names)
	}
}

// awaitDrained prints each agent when none of its tasks is left.
func (a *clusterCommands) awaitDrained(ctx context.Context, c *client.Client, names []string) error {
	names = slices.Clone(names)
	count := map[string]int{}
	for {
		left, err := countTasks(ctx, c, names)
		if err == nil {
			count = left
			names = slices.DeleteFunc(names, func(name string) bool {
				if count[name] == 0 {
					fmt.Fprintf(a.Stdout, "agent %s: drained\n", name)
				}
				return count[name] == 0
			})
			if len(names) == 0 {
				return nil
			}
			select {
			case <-time.After(drainInterval):
				continue
			case <-ctx.Done():
			}
		}
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return errors.Join(err, ctx.Err())
		}
		for _, name := range names {
			fmt.Fprintf(a.Stderr, "mesos-gpu: agent %s is not drained yet: %d %s\n", name, count[name], gpu.Plural(count[name], "task"))
		}
		return &cli.ExitStatus{Code: cli.ExitTimedOut}
	}
}

// countTasks returns how many tasks are on each of the agents, which are named by hostname or id.
func countTasks(ctx context.Context, c *client.Client, names []string) (map[string]int, error) {
	count := map[string]int{}
	for view, err := range c.EachJob(ctx, api.LiveJobs) {
		if err != nil {
			return nil, err
		}
		for i := range view.Tasks {
			for _, name := range names {
				if t := &view.Tasks[i]; t.State.IsPlaced() && (t.Hostname == name || t.AgentID == name) {
					count[name]++
				}
			}
		}
	}
	return count, nil
}

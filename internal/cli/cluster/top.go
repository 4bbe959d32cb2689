package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

// Kinds of rows in top.
const (
	topByTask  = "task"
	topByAgent = "agent"
)

// topOrders returns the sort orders of top by name: names ascending, numbers
// descending, unknown numbers last.
func topOrders() map[string]func(a, b *usageRow) int {
	figure := func(of func(*usageRow) *float64) func(a, b *usageRow) int {
		return func(a, b *usageRow) int { return cmp.Compare(valueOrLeast(of(b)), valueOrLeast(of(a))) }
	}
	return map[string]func(a, b *usageRow) int{
		"task":   func(a, b *usageRow) int { return cmp.Compare(a.Task, b.Task) },
		"host":   func(a, b *usageRow) int { return cmp.Compare(a.Hostname, b.Hostname) },
		"duty":   figure(func(u *usageRow) *float64 { return u.Duty }),
		"memory": figure(func(u *usageRow) *float64 { return u.MemUsedMiB }),
		"power":  figure(func(u *usageRow) *float64 { return u.Watts }),
		"temp":   figure(func(u *usageRow) *float64 { return u.Celsius }),
		"age":    figure(func(u *usageRow) *float64 { return u.AgeSeconds }),
	}
}

func (a *clusterCommands) topCommand() *cobra.Command {
	by, order := topByTask, "host"
	c := a.NewShowCommand("top", "Show what the GPUs of running tasks do now", nil,
		func(ctx context.Context, api *client.Client, args []string) (cli.CommandResult, error) {
			if err := checkTopFlags(by, order); err != nil {
				return cli.CommandResult{}, err
			}
			tasks, err := api.ListUsage(ctx, strings.Join(args, ""))
			if by == topByAgent {
				agents := sortUsage(agentUsageRows(tasks), order)
				return cli.CommandResult{Data: agents, Print: func(p *term.TablePrinter) error { return printAgentUsage(p, agents) }}, err
			}
			uses := sortUsage(taskUsageRows(tasks), order)
			return cli.CommandResult{Data: tasks, Print: func(p *term.TablePrinter) error { return printTaskUsage(p, uses) }}, err
		})
	c.Use, c.Args = "top [JOB]", cli.AtMost("JOB")
	c.Long = c.Short + ", as their agents' mesos-gpu agent measures every few seconds; on a terminal again every 2 s, unless --watch=false.\n" +
		"A dash is a value that is not measured. Duty, power and temperature of a GPU that tasks share are the whole GPU's."
	// A terminal is redrawn until interrupted, as with --watch.
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if f := c.Flags(); !f.Changed("watch") && !a.ForPrograms && term.IsTerminal(a.Stdout) {
			return f.Set("watch", "true")
		}
		return nil
	}
	c.Flags().StringVar(&by, "by", by, "one line for each "+cli.JoinWithOr([]string{topByTask, topByAgent})+
		"; for an agent: sums, the mean utilization and the highest temperature of its GPUs")
	c.Flags().StringVar(&order, "sort", order, "sort by "+cli.JoinWithOr(topSortKeys())+"; a leading dash reverses the order")
	cli.CompleteFixed(c, "by", []string{topByTask, topByAgent})
	cli.CompleteFixed(c, "sort", topSortKeys())
	return c
}

func topSortKeys() []string { return slices.Sorted(maps.Keys(topOrders())) }

func checkTopFlags(by, order string) error {
	switch {
	case by != topByTask && by != topByAgent:
		return &cli.UsageError{Err: fmt.Errorf("--by %s: use %s", by, cli.JoinWithOr([]string{topByTask, topByAgent}))}
	case topOrders()[strings.TrimPrefix(order, "-")] == nil:
		return &cli.UsageError{Err: fmt.Errorf("--sort %s: use %s", order, cli.JoinWithOr(topSortKeys()))}
	case by == topByAgent && strings.TrimPrefix(order, "-") == "task":
		return &cli.UsageError{Err: errors.New("--sort task: the lines are agents, use host")}
	}
	return nil
}

func sortUsage(uses []usageRow, order string) []usageRow {
	key, back := strings.CutPrefix(order, "-")
	by := topOrders()[key]
	slices.SortStableFunc(uses, func(x, y usageRow) int {
		if back {
			return by(&y, &x)
		}
		return by(&x, &y)
	})
	return uses
}

func valueOrLeast(v *float64) float64 {
	if v == nil {
		return math.Inf(-1)
	}
	return *v
}

func printTaskUsage(p *term.TablePrinter, uses []usageRow) error {
	p = p.DropFirst("AGE", "GPU", "TEMP", "POWER", "HOST").WithEmptyText("No task with GPUs runs.")
	return term.PrintTable(p, uses, append([]term.TableColumn[usageRow]{
		{Name: "TASK", Value: func(u usageRow) string { return u.Task }},
		{Name: "HOST", Value: func(u usageRow) string { return term.DashIfEmpty(u.Hostname) }},
		{Name: "GPU", Value: func(u usageRow) string { return term.DashIfEmpty(u.GPU) }},
	}, usageColumns()...),
		term.TableColumn[usageRow]{Name: "HEALTH", Value: func(u usageRow) string { return term.DashIfEmpty(u.health) }},
		term.TableColumn[usageRow]{Name: "THROTTLED", Value: func(u usageRow) string { return formatUsage("%.0f s", u.throttled, 1) }},
	)
}

func printAgentUsage(p *term.TablePrinter, uses []usageRow) error {
	p = p.DropFirst("AGE", "GPUS", "TEMP", "POWER", "TASKS").WithEmptyText("No task with GPUs runs.")
	return term.PrintTable(p, uses, append([]term.TableColumn[usageRow]{
		{Name: "HOST", Value: func(u usageRow) string { return term.DashIfEmpty(u.Hostname) }},
		{Name: "TASKS", Value: func(u usageRow) string { return fmt.Sprint(u.Tasks) }},
		{Name: "GPUS", Value: func(u usageRow) string { return fmt.Sprint(u.GPUs) }},
	}, usageColumns()...))
}

// usageColumns returns the columns that task and agent rows share.
func usageColumns() []term.TableColumn[usageRow] {
	return []term.TableColumn[usageRow]{
		{Name: "DUTY", Value: func(u usageRow) string { return formatUsage("%.0f %%", u.Duty, 100) }},
		{Name: "MEMORY", Value: func(u usageRow) string { return formatMemory(u.MemUsedMiB, u.MemMiB) }},
		{Name: "POWER", Value: func(u usageRow) string { return formatUsage("%.0f W", u.Watts, 1) }},
		{Name: "TEMP", Value: func(u usageRow) string { return formatUsage("%.0f °C", u.Celsius, 1) }},
		{Name: "AGE", Value: func(u usageRow) string { return formatUsage("%.0f s", u.AgeSeconds, 1) }},
		{Name: "NOTE", Value: func(u usageRow) string { return u.Note }},
	}
}

func formatUsage(format string, v *float64, unit float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v*unit)
}

// formatMemory formats memory in MiB, such as "1.5 of 16.0 GiB".
func formatMemory(used, all *float64) string {
	gib := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.1f", *v/1024)
	}
	switch {
	case used == nil && all == nil:
		return "-"
	case all == nil:
		return gib(used) + " GiB"
	}
	return gib(used) + " of " + gib(all) + " GiB"
}

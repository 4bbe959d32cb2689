package main

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

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
)

// The things of which top shows a line each.
const (
	topByTask  = "task"
	topByAgent = "agent"
)

// topOrders are the ways to sort what top shows: names upwards, figures with the
// largest first, and those that nobody knows at the end.
func topOrders() map[string]func(a, b *usageRow) int {
	figure := func(of func(*usageRow) *float64) func(a, b *usageRow) int {
		return func(a, b *usageRow) int { return cmp.Compare(valueOrLeast(of(b)), valueOrLeast(of(a))) }
	}
	return map[string]func(a, b *usageRow) int{
		"task":   func(a, b *usageRow) int { return cmp.Compare(a.task, b.task) },
		"host":   func(a, b *usageRow) int { return cmp.Compare(a.Hostname, b.Hostname) },
		"duty":   figure(func(u *usageRow) *float64 { return u.Duty }),
		"memory": figure(func(u *usageRow) *float64 { return u.MemUsedMiB }),
		"power":  figure(func(u *usageRow) *float64 { return u.Watts }),
		"temp":   figure(func(u *usageRow) *float64 { return u.Celsius }),
		"age":    figure(func(u *usageRow) *float64 { return u.AgeSeconds }),
	}
}

func (a *cliApp) topCommand() *cobra.Command {
	by, order := topByTask, "host"
	c := a.newShowCommand("top", "Show what the GPUs of running tasks do now", nil, func(ctx context.Context, api *client.Client, args []string) (commandResult, error) {
		if err := checkTopFlags(by, order); err != nil {
			return commandResult{}, err
		}
		tasks, err := api.ListUsage(ctx, strings.Join(args, ""))
		if by == topByAgent {
			agents := sortUsage(agentUsageRows(tasks), order)
			return commandResult{agents, func(p *tablePrinter) error { return printAgentUsage(p, agents) }}, err
		}
		uses := sortUsage(taskUsageRows(tasks), order)
		return commandResult{tasks, func(p *tablePrinter) error { return printTaskUsage(p, uses) }}, err
	})
	c.Use, c.Args = "top [JOB]", atMost("JOB")
	c.Long = c.Short + ", as their agents' mesos-gpu agent measures every few seconds; on a terminal anew every 2 s, unless --watch=false.\n" +
		"What nobody measures is a dash. Duty, power and temperature of a GPU that tasks share are the whole GPU's."
	// On a terminal it stays.
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if f := c.Flags(); !f.Changed("watch") && !a.forPrograms && isTerminal(a.stdout) {
			return f.Set("watch", "true")
		}
		return nil
	}
	c.Flags().StringVar(&by, "by", by, "a line for each "+joinWithOr([]string{topByTask, topByAgent})+"; an agent's has sums, the mean duty and the highest temperature of these GPUs")
	c.Flags().StringVar(&order, "sort", order, "sort by "+joinWithOr(topSortKeys())+"; with a dash before it the other way round")
	completeFixed(c, "by", []string{topByTask, topByAgent})
	completeFixed(c, "sort", topSortKeys())
	return c
}

func topSortKeys() []string { return slices.Sorted(maps.Keys(topOrders())) }

func checkTopFlags(by, order string) error {
	switch {
	case by != topByTask && by != topByAgent:
		return &usageError{fmt.Errorf("--by %s: use %s", by, joinWithOr([]string{topByTask, topByAgent}))}
	case topOrders()[strings.TrimPrefix(order, "-")] == nil:
		return &usageError{fmt.Errorf("--sort %s: use %s", order, joinWithOr(topSortKeys()))}
	case by == topByAgent && strings.TrimPrefix(order, "-") == "task":
		return &usageError{errors.New("--sort task: the lines are agents, use host")}
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

func printTaskUsage(p *tablePrinter, uses []usageRow) error {
	p = p.dropFirst("AGE", "GPU", "TEMP", "POWER", "HOST").withEmptyText("No task runs.")
	return printTable(p, uses, append([]tableColumn[usageRow]{
		{"TASK", func(u usageRow) string { return u.task }},
		{"HOST", func(u usageRow) string { return dashIfEmpty(u.Hostname) }},
		{"GPU", func(u usageRow) string { return dashIfEmpty(u.gpu) }},
	}, usageColumns()...),
		tableColumn[usageRow]{"HEALTH", func(u usageRow) string { return dashIfEmpty(u.health) }},
		tableColumn[usageRow]{"THROTTLED", func(u usageRow) string { return formatUsage("%.0f s", u.throttled, 1) }},
	)
}

func printAgentUsage(p *tablePrinter, uses []usageRow) error {
	p = p.dropFirst("AGE", "GPUS", "TEMP", "POWER", "TASKS").withEmptyText("No task runs.")
	return printTable(p, uses, append([]tableColumn[usageRow]{
		{"HOST", func(u usageRow) string { return dashIfEmpty(u.Hostname) }},
		{"TASKS", func(u usageRow) string { return fmt.Sprint(u.Tasks) }},
		{"GPUS", func(u usageRow) string { return fmt.Sprint(u.GPUs) }},
	}, usageColumns()...))
}

// usageColumns are the columns of tasks and agents alike.
func usageColumns() []tableColumn[usageRow] {
	return []tableColumn[usageRow]{
		{"DUTY", func(u usageRow) string { return formatUsage("%.0f %%", u.Duty, 100) }},
		{"MEMORY", func(u usageRow) string { return formatMemory(u.MemUsedMiB, u.MemMiB) }},
		{"POWER", func(u usageRow) string { return formatUsage("%.0f W", u.Watts, 1) }},
		{"TEMP", func(u usageRow) string { return formatUsage("%.0f °C", u.Celsius, 1) }},
		{"AGE", func(u usageRow) string { return formatUsage("%.0f s", u.AgeSeconds, 1) }},
		{"NOTE", func(u usageRow) string { return u.Note }},
	}
}

func formatUsage(format string, v *float64, unit float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v*unit)
}

// formatMemory reads "1.5 of 16.0 GiB".
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

// usageNote says what is to be known of a task's figures.
func usageNote(t *api.TaskUsage) string {
	switch {
	case t.Simulated && t.Note == "":
		return "simulated"
	case t.Simulated:
		return "simulated; " + t.Note
	}
	return t.Note
}

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
	byTask  = "task"
	byAgent = "agent"
)

// topOrders are the ways to sort what top shows: names upwards, figures with the
// largest first, and those that nobody knows at the end.
func topOrders() map[string]func(a, b *use) int {
	figure := func(of func(*use) *float64) func(a, b *use) int {
		return func(a, b *use) int { return cmp.Compare(orLeast(of(b)), orLeast(of(a))) }
	}
	return map[string]func(a, b *use) int{
		"task":   func(a, b *use) int { return cmp.Compare(a.task, b.task) },
		"host":   func(a, b *use) int { return cmp.Compare(a.Hostname, b.Hostname) },
		"duty":   figure(func(u *use) *float64 { return u.Duty }),
		"memory": figure(func(u *use) *float64 { return u.MemUsedMiB }),
		"power":  figure(func(u *use) *float64 { return u.Watts }),
		"temp":   figure(func(u *use) *float64 { return u.Celsius }),
		"age":    figure(func(u *use) *float64 { return u.AgeSeconds }),
	}
}

func (a *app) topCommand() *cobra.Command {
	by, order := byTask, "host"
	c := a.show("top", "Show what the GPUs of running tasks do now", nil, func(ctx context.Context, api *client.Client, args []string) (shown, error) {
		if err := checkTop(by, order); err != nil {
			return shown{}, err
		}
		tasks, err := api.Usage(ctx, strings.Join(args, ""))
		if by == byAgent {
			agents := sorted(usesOfAgents(tasks), order)
			return shown{agents, func(p *printer) error { return listAgentUse(p, agents) }}, err
		}
		uses := sorted(usesOf(tasks), order)
		return shown{tasks, func(p *printer) error { return listUse(p, uses) }}, err
	})
	c.Use, c.Args = "top [JOB]", atMost("JOB")
	c.Long = c.Short + ", as their agents' mesos-gpu agent measures every few seconds; on a terminal anew every 2 s, unless --watch=false.\n" +
		"What nobody measures is a dash. Duty, power and temperature of a GPU that tasks share are the whole GPU's."
	// On a terminal it stays.
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if f := c.Flags(); !f.Changed("watch") && !a.json && terminal(a.out) {
			return f.Set("watch", "true")
		}
		return nil
	}
	c.Flags().StringVar(&by, "by", by, "a line for each "+orList([]string{byTask, byAgent})+"; an agent's has sums, the mean duty and the highest temperature of these GPUs")
	c.Flags().StringVar(&order, "sort", order, "sort by "+orList(topKeys())+"; with a dash before it the other way round")
	fixed(c, "by", []string{byTask, byAgent})
	fixed(c, "sort", topKeys())
	return c
}

func topKeys() []string { return slices.Sorted(maps.Keys(topOrders())) }

func checkTop(by, order string) error {
	switch {
	case by != byTask && by != byAgent:
		return &usageError{fmt.Errorf("--by %s: use %s", by, orList([]string{byTask, byAgent}))}
	case topOrders()[strings.TrimPrefix(order, "-")] == nil:
		return &usageError{fmt.Errorf("--sort %s: use %s", order, orList(topKeys()))}
	case by == byAgent && strings.TrimPrefix(order, "-") == "task":
		return &usageError{errors.New("--sort task: the lines are agents, use host")}
	}
	return nil
}

func sorted(uses []use, order string) []use {
	key, back := strings.CutPrefix(order, "-")
	by := topOrders()[key]
	slices.SortStableFunc(uses, func(x, y use) int {
		if back {
			return by(&y, &x)
		}
		return by(&x, &y)
	})
	return uses
}

func orLeast(v *float64) float64 {
	if v == nil {
		return math.Inf(-1)
	}
	return *v
}

func listUse(p *printer, uses []use) error {
	p = p.spare("AGE", "GPU", "TEMP", "POWER", "HOST").orSay("No task runs.")
	return tableOf(p, uses, append([]column[use]{
		{"TASK", func(u use) string { return u.task }},
		{"HOST", func(u use) string { return orDash(u.Hostname) }},
		{"GPU", func(u use) string { return orDash(u.gpu) }},
	}, figures()...),
		column[use]{"HEALTH", func(u use) string { return orDash(u.health) }},
		column[use]{"THROTTLED", func(u use) string { return figureText("%.0f s", u.throttled, 1) }},
	)
}

func listAgentUse(p *printer, uses []use) error {
	p = p.spare("AGE", "GPUS", "TEMP", "POWER", "TASKS").orSay("No task runs.")
	return tableOf(p, uses, append([]column[use]{
		{"HOST", func(u use) string { return orDash(u.Hostname) }},
		{"TASKS", func(u use) string { return fmt.Sprint(u.Tasks) }},
		{"GPUS", func(u use) string { return fmt.Sprint(u.GPUs) }},
	}, figures()...))
}

// figures are the columns of tasks and agents alike.
func figures() []column[use] {
	return []column[use]{
		{"DUTY", func(u use) string { return figureText("%.0f %%", u.Duty, 100) }},
		{"MEMORY", func(u use) string { return memoryText(u.MemUsedMiB, u.MemMiB) }},
		{"POWER", func(u use) string { return figureText("%.0f W", u.Watts, 1) }},
		{"TEMP", func(u use) string { return figureText("%.0f °C", u.Celsius, 1) }},
		{"AGE", func(u use) string { return figureText("%.0f s", u.AgeSeconds, 1) }},
		{"NOTE", func(u use) string { return u.Note }},
	}
}

func figureText(format string, v *float64, unit float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v*unit)
}

// memoryText reads "1.5 of 16.0 GiB".
func memoryText(used, all *float64) string {
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

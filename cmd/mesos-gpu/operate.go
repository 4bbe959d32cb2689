package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
)

func (a *app) queueCommand() *cobra.Command {
	return a.show("queue", "List the jobs with tasks that wait, in the order in which they choose", nil, func(ctx context.Context, api *client.Client, _ []string) (shown, error) {
		jobs, err := api.Queue(ctx)
		return shown{jobs, func(p *printer) error { return listQueue(p, jobs) }}, err
	})
}

func listQueue(p *printer, jobs []api.Queued) error {
	p = p.spare("SUBMITTED", "PRIORITY", "ROLE", "GPUS", "WAITING", "PLACE").orSay("No task waits.")
	return tableOf(p, jobs, []column[api.Queued]{
		{"PLACE", func(q api.Queued) string { return fmt.Sprint(q.Position) }},
		{"JOB", func(q api.Queued) string { return q.Name }},
		{"ROLE", func(q api.Queued) string { return q.Role }},
		{"PRIORITY", func(q api.Queued) string { return fmt.Sprint(q.Priority) }},
		{"WAITING", func(q api.Queued) string { return fmt.Sprintf("%d of %d", q.Waiting, q.Tasks) }},
		{"GPUS", func(q api.Queued) string { return orDash(q.GPUs) }},
		{"SUBMITTED", func(q api.Queued) string { return ago(q.Submitted) }},
		{"WAITS", func(q api.Queued) string { return q.Reason }},
	})
}

func (a *app) quotaCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "quota", Short: "Show and set how many GPUs roles may hold", Args: knownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	get := a.show("get", "Show the roles' quotas and what they hold", nil, func(ctx context.Context, api *client.Client, only []string) (shown, error) {
		roles, err := api.Roles(ctx)
		if err == nil && len(only) > 0 {
			roles, err = roleNamed(roles, only[0])
		}
		return shown{roles, func(p *printer) error { return listRoles(p, roles) }}, err
	})
	get.Use, get.Args = "get [ROLE]", atMost("ROLE")
	set := &cobra.Command{
		Use: "set ROLE QUOTA", Short: "Bound the GPUs that a role may hold", Args: args("ROLE", "QUOTA"),
		Long: "Bound the GPUs that a role may hold, by type and with * of all types together, as in the roles file; none is no bound.\n" +
			"It holds until it is unset, also when the roles file is read again. Tasks that run go on, whatever the quota.",
		Example: "  mesos-gpu quota set research 'V100=8, *=16'",
		RunE: func(c *cobra.Command, args []string) error {
			quota := args[1]
			if quota == "none" {
				quota = ""
			}
			return a.setQuota(c.Context(), args[0], &quota)
		},
	}
	unset := &cobra.Command{
		Use: "unset ROLE", Short: "Give a role the quota of the roles file again", Args: args("ROLE"),
		RunE: func(c *cobra.Command, args []string) error { return a.setQuota(c.Context(), args[0], nil) },
	}
	c.AddCommand(get, set, unset)
	return c
}

func roleNamed(roles []api.Role, name string) ([]api.Role, error) {
	at := slices.IndexFunc(roles, func(r api.Role) bool { return r.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("the scheduler has no role %q: see mesos-gpu quota get", name)
	}
	return roles[at : at+1], nil
}

func listRoles(p *printer, roles []api.Role) error {
	return tableOf(p.spare("WAITING"), roles, []column[api.Role]{
		{"ROLE", func(r api.Role) string { return r.Name }},
		{"QUOTA", func(r api.Role) string { return quotaText(&r) }},
		{"HELD", func(r api.Role) string { return orDash(byType(r.Held)) }},
		{"WAITING", func(r api.Role) string { return fmt.Sprint(r.Waiting) }},
	},
		column[api.Role]{"WEIGHT", func(r api.Role) string { return fmt.Sprint(r.Weight) }},
		column[api.Role]{"ORDER", func(r api.Role) string { return orDash(r.Order) }},
		column[api.Role]{"POLICY", func(r api.Role) string { return orDash(r.Policy) }},
		column[api.Role]{"BACKFILL", func(r api.Role) string { return strconv.FormatBool(r.Backfill) }},
	)
}

// quotaText tells a quota that somebody has set from the roles file's.
func quotaText(r *api.Role) string {
	text := byType(r.Quota)
	if text == "" {
		text = "none"
	}
	if r.QuotaSet {
		text += " (set)"
	}
	return text
}

// byType reads "V100=8, *=16", all types at the end.
func byType[N int | float64](gpus map[string]N) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(gpus)) {
		if name != "*" {
			parts = append(parts, fmt.Sprintf("%s=%v", name, gpus[name]))
		}
	}
	if all, ok := gpus["*"]; ok {
		parts = append(parts, fmt.Sprintf("*=%v", all))
	}
	return strings.Join(parts, ", ")
}

func (a *app) setQuota(ctx context.Context, role string, quota *string) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	now, err := api.SetQuota(ctx, role, quota)
	if err != nil {
		return err
	}
	for _, warning := range now.Warnings {
		fmt.Fprintf(a.err, "mesos-gpu: %s\n", printable(warning))
	}
	fmt.Fprintln(a.out, printable(fmt.Sprintf("role %s: quota %s, held %s", now.Name, quotaText(&now), orDash(byType(now.Held)))))
	return nil
}

// agentCommands keep tasks off whole agents, as the scheduler sees them. That
// of single devices is `mesos-gpu agent cordon`, on the agent itself.
func (a *app) agentCommands() []*cobra.Command {
	var why string
	cordon := a.onAgents("cordon", "Keep new tasks off agents; those on them go on", "cordoned", func(ctx context.Context, api *client.Client, agent string) error {
		return api.Cordon(ctx, agent, why)
	})
	drain := a.onAgents("drain", "Cordon agents, stop their tasks with their kill grace and queue them again", "draining", func(ctx context.Context, api *client.Client, agent string) error {
		return api.Drain(ctx, agent, why)
	})
	uncordon := a.onAgents("uncordon", "Let agents have tasks again", "uncordoned", func(ctx context.Context, api *client.Client, agent string) error {
		return api.Uncordon(ctx, agent)
	})
	for _, c := range []*cobra.Command{cordon, drain} {
		c.Flags().StringVar(&why, "reason", "", "what others are to know")
		c.Long = c.Short + ".\nAGENT is a hostname or an agent's id, as mesos-gpu agents shows them. It holds for this scheduler's tasks, until uncordon.\n" +
			"A single GPU is cordoned on its machine: mesos-gpu agent cordon."
	}
	return []*cobra.Command{cordon, uncordon, drain}
}

// onAgents makes a command that does something to agents and says what.
func (a *app) onAgents(verb, short, done string, do func(context.Context, *client.Client, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " AGENT...", Short: short, Args: atLeast("AGENT"),
		RunE: func(c *cobra.Command, agents []string) error {
			api, err := a.client()
			if err != nil {
				return err
			}
			var errs []error
			for _, agent := range agents {
				if err := do(c.Context(), api, agent); err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(a.out, "agent %s: %s\n", agent, done)
			}
			return errors.Join(errs...)
		},
	}
}

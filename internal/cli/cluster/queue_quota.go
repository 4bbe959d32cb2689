package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
)

func (a *clusterCommands) queueCommand() *cobra.Command {
	return a.NewShowCommand("queue", "List the jobs with tasks that wait, in the order in which they choose", nil,
		func(ctx context.Context, api *client.Client, _ []string) (cli.CommandResult, error) {
			jobs, err := api.ListQueue(ctx)
			return cli.CommandResult{Data: jobs, Print: func(p *term.TablePrinter) error { return printQueue(p, jobs) }}, err
		})
}

func printQueue(p *term.TablePrinter, jobs []api.QueuedJob) error {
	p = p.DropFirst("SUBMITTED", "PRIORITY", "STARTS", "ROLE", "GPUS", "STATE", "WAITING", "PLACE").WithEmptyText("No task waits.")
	return term.PrintTable(p, jobs, []term.TableColumn[api.QueuedJob]{
		{Name: "PLACE", Value: func(q api.QueuedJob) string { return fmt.Sprint(q.Position) }},
		{Name: "JOB", Value: func(q api.QueuedJob) string { return q.Name }},
		{Name: "ROLE", Value: func(q api.QueuedJob) string { return q.Role }},
		{Name: "PRIORITY", Value: func(q api.QueuedJob) string { return fmt.Sprint(q.Priority) }},
		{Name: "STATE", Value: func(q api.QueuedJob) string { return string(q.State) }},
		{Name: "WAITING", Value: func(q api.QueuedJob) string { return fmt.Sprintf("%d of %d", q.Waiting, q.Tasks) }},
		{Name: "GPUS", Value: func(q api.QueuedJob) string { return term.DashIfEmpty(q.GPUs) }},
		{Name: "SUBMITTED", Value: func(q api.QueuedJob) string { return term.FormatAge(q.Submitted) }},
		{Name: "STARTS", Value: func(q api.QueuedJob) string { return cli.FormatStartEstimate(q.Start, time.Now()) }},
		{Name: "WAITS", Value: func(q api.QueuedJob) string { return q.Reason }},
	})
}

func (a *clusterCommands) quotaCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "quota", Short: "Show and set the GPU quotas of roles", Args: cli.RejectUnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	get := a.NewShowCommand("get", "Show the roles' quotas and what they hold", nil,
		func(ctx context.Context, api *client.Client, only []string) (cli.CommandResult, error) {
			roles, err := api.ListRoles(ctx)
			if err == nil && len(only) > 0 {
				roles, err = findRole(roles, only[0])
			}
			return cli.CommandResult{Data: roles, Print: func(p *term.TablePrinter) error { return printRoles(p, roles) }}, err
		})
	get.Use, get.Args = "get [ROLE]", cli.AtMost("ROLE")
	set := &cobra.Command{
		Use: "set ROLE QUOTA", Short: "Limit the GPUs that a role may hold", Args: checkQuotaArguments,
		Long: "Limit the GPUs that a role may hold, by type, or with * for all types together, as in the roles file; none removes the limit.\n" +
			"The quota applies until it is unset, also after the roles file is reloaded. Running tasks are not affected.",
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
		Use: "unset ROLE", Short: "Restore a role's quota of the roles file", Args: cli.RequireArgs("ROLE"),
		RunE: func(c *cobra.Command, args []string) error { return a.setQuota(c.Context(), args[0], nil) },
	}
	c.AddCommand(get, set, unset, a.quotaExplainCommand())
	return c
}

// checkQuotaArguments accepts a role and a quota. The shell expands a role * without quotes to names of files.
func checkQuotaArguments(c *cobra.Command, got []string) error {
	if len(got) == 1 && strings.Contains(got[0], "=") {
		return &cli.UsageError{Err: fmt.Errorf("%s needs ROLE and QUOTA: see %s --help", cli.CommandName(c), c.CommandPath())}
	}
	err := cli.RequireArgs("ROLE", "QUOTA")(c, got)
	if len(got) > 2 {
		return &cli.UsageError{Err: fmt.Errorf("%w; quote the role *: '*'", err)}
	}
	return err
}

func findRole(roles []api.RoleStatus, name string) ([]api.RoleStatus, error) {
	at := slices.IndexFunc(roles, func(r api.RoleStatus) bool { return r.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("the scheduler has no role %q: see mesos-gpu quota get", name)
	}
	return roles[at : at+1], nil
}

func printRoles(p *term.TablePrinter, roles []api.RoleStatus) error {
	columns := []term.TableColumn[api.RoleStatus]{
		{Name: "ROLE", Value: func(r api.RoleStatus) string { return r.Name }},
		{Name: "QUOTA", Value: func(r api.RoleStatus) string { return formatQuota(&r) }},
		{Name: "HELD", Value: func(r api.RoleStatus) string { return formatWithHost(&r, r.Allocated, hostHeld) }},
		{Name: "WAITING", Value: func(r api.RoleStatus) string { return fmt.Sprint(r.Waiting) }},
	}
	shares := []term.TableColumn[api.RoleStatus]{
		{Name: "DESERVED", Value: func(r api.RoleStatus) string { return formatWithHost(&r, r.Deserved, hostDeserved) }},
		{Name: "DEMANDED", Value: func(r api.RoleStatus) string { return formatWithHost(&r, r.Demanded, hostDemanded) }},
	}
	pursued := slices.ContainsFunc(roles, func(r api.RoleStatus) bool { return r.Entitled != nil })
	if pursued {
		shares = append(shares, term.TableColumn[api.RoleStatus]{
			Name: "ENTITLED", Value: func(r api.RoleStatus) string { return term.DashIfEmpty(formatByType(r.Entitled)) },
		})
	}
	if pursued || slices.ContainsFunc(roles, func(r api.RoleStatus) bool { return len(r.Deserved) > 0 || r.Host != nil }) {
		columns = slices.Insert(columns, 2, shares...)
	}
	if slices.ContainsFunc(roles, func(r api.RoleStatus) bool { return r.HalfLifeSeconds > 0 }) {
		columns = append(columns, term.TableColumn[api.RoleStatus]{Name: "RECENT", Value: func(r api.RoleStatus) string {
			if r.HalfLifeSeconds == 0 {
				return "-"
			}
			return fmt.Sprint(r.Recent)
		}})
	}
	if slices.ContainsFunc(roles, func(r api.RoleStatus) bool { return r.MesosQuota != nil }) {
		columns = append(columns, term.TableColumn[api.RoleStatus]{Name: "MESOS QUOTA", Value: func(r api.RoleStatus) string {
			if r.MesosQuota == nil {
				return "-"
			}
			return formatUse(r.MesosQuota.Used, r.MesosQuota.Limit)
		}})
	}
	return term.PrintTable(p.DropFirst("WAITING", "DEMANDED", "ENTITLED"), roles, columns,
		term.TableColumn[api.RoleStatus]{Name: "WEIGHT", Value: func(r api.RoleStatus) string { return fmt.Sprint(r.Weight) }},
		term.TableColumn[api.RoleStatus]{Name: "ORDER", Value: func(r api.RoleStatus) string { return term.DashIfEmpty(r.Order) }},
		term.TableColumn[api.RoleStatus]{Name: "POLICY", Value: func(r api.RoleStatus) string { return term.DashIfEmpty(r.Policy) }},
		term.TableColumn[api.RoleStatus]{Name: "BACKFILL", Value: func(r api.RoleStatus) string { return strconv.FormatBool(r.Backfill) }},
	)
}

// formatQuota formats a role's quota and marks one that overrides the roles file.
func formatQuota(r *api.RoleStatus) string {
	text := formatByType(r.Quota)
	if text == "" {
		text = "none"
	}
	if r.QuotaSet && text == "none" {
		text = "unlimited"
	}
	if r.QuotaSet {
		text += " (set)"
	}
	return text
}

// hostDeserved, hostDemanded and hostHeld return one amount of CPUs or memory, nil for none.
func hostDeserved(u api.HostUse) *float64 { return u.Deserved }
func hostDemanded(u api.HostUse) *float64 { return &u.Demanded }
func hostHeld(u api.HostUse) *float64     { return &u.Held }

// formatWithHost formats counts by GPU type, followed by CPUs and memory if roles deserve some: "V100=8, cpus=32, mem=64GiB".
func formatWithHost[N int | float64](r *api.RoleStatus, gpus map[string]N, amount func(api.HostUse) *float64) string {
	parts := []string{formatByType(gpus)}
	for _, resource := range slices.Sorted(maps.Keys(r.Host)) {
		if n := amount(r.Host[resource]); n != nil {
			parts = append(parts, resource+"="+formatHostAmount(resource, *n))
		}
	}
	return term.DashIfEmpty(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", "))
}

// formatHostAmount formats CPUs, or MiB of memory as "64GiB".
func formatHostAmount(resource string, n float64) string {
	unit := ""
	if resource == "mem" {
		if unit = "MiB"; n >= 1024 || n == 0 {
			n, unit = n/1024, "GiB"
		}
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) + unit
}

// formatByType formats counts by GPU type, such as "V100=8, *=16", with "*" last.
func formatByType[N int | float64](gpus map[string]N) string {
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

func (a *clusterCommands) setQuota(ctx context.Context, role string, quota *string) error {
	scheduler, err := a.NewClient()
	if err != nil {
		return err
	}
	now, err := scheduler.SetQuota(ctx, role, quota)
	if client.CodeOf(err) == api.CodeNotFound {
		return fmt.Errorf("%w: see mesos-gpu quota get; quote the role *: '*'", err)
	}
	if err != nil {
		return err
	}
	for _, warning := range now.Warnings {
		fmt.Fprintf(a.Stderr, "mesos-gpu: %s\n", term.EscapeControls(warning))
	}
	fmt.Fprintln(a.Stdout, term.EscapeControls(fmt.Sprintf("role %s: quota %s, held %s", now.Name, formatQuota(&now),
		term.DashIfEmpty(formatByType(now.Allocated)))))
	return nil
}

// cordonCommands returns the commands that cordon, drain and uncordon whole agents in
// the scheduler. `mesos-gpu agent cordon` cordons single devices on the agent itself.
func (a *clusterCommands) cordonCommands() []*cobra.Command {
	var why string
	cordon := a.NewEachCommand("cordon", "AGENT", "agent", "Withdraw agents from new tasks; running tasks continue",
		"cordoned", func(api *client.Client, ctx context.Context, agent string) error {
			return api.CordonAgent(ctx, agent, why)
		})
	drain := a.NewEachCommand("drain", "AGENT", "agent",
		"Cordon agents, stop their tasks with their kill grace and queue them again", "draining",
		func(api *client.Client, ctx context.Context, agent string) error {
			return api.DrainAgent(ctx, agent, why)
		})
	uncordon := a.NewEachCommand("uncordon", "AGENT", "agent", "Make agents available again", "uncordoned",
		func(api *client.Client, ctx context.Context, agent string) error {
			return api.UncordonAgent(ctx, agent)
		})
	for _, c := range []*cobra.Command{cordon, drain} {
		c.RunE = a.checkAgentsBefore(c.RunE, &why)
		c.Flags().StringVar(&why, "reason", "", "reason, shown to other users")
		c.Long = c.Short + ".\nAGENT is a hostname or an agent's id, as mesos-gpu agents shows them. It holds for this scheduler's tasks, until uncordon.\n" +
			"A single GPU is cordoned on its machine: mesos-gpu agent cordon."
	}
	a.addDrainWait(drain)
	return []*cobra.Command{cordon, uncordon, drain}
}

// checkAgentsBefore returns apply with a check of several agents before the first one is changed. An unknown name may be
// another word of a reason without quotes.
func (a *clusterCommands) checkAgentsBefore(apply func(*cobra.Command, []string) error, reason *string) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, names []string) error {
		if len(names) == 1 {
			return apply(c, names) // the scheduler checks it, and knows agents that have left the cluster too
		}
		scheduler, err := a.NewClient()
		if err != nil {
			return err
		}
		agents, err := scheduler.ListAgents(c.Context())
		if err != nil {
			return err
		}
		var unknown []string
		var errs []error
		for _, name := range names {
			if !slices.ContainsFunc(agents, func(a api.AgentSummary) bool { return a.ID == name || a.Hostname == name }) {
				unknown = append(unknown, name)
				errs = append(errs, fmt.Errorf("nothing was changed: %w", api.UnknownAgent(name)))
			}
		}
		if len(unknown) > 0 && *reason != "" {
			errs = append(errs, fmt.Errorf("a reason of several words is quoted: --reason %q", *reason+" "+strings.Join(unknown, " ")))
		}
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
		return apply(c, names)
	}
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// usageFlags are the flags of usage.
type usageFlags struct {
	by           []string
	since, until string
	query        api.AccountingQuery
	state        string
	attempts     bool
	csv          bool
}

func (a *clusterCommands) usageCommand() *cobra.Command {
	var f usageFlags
	c := &cobra.Command{
		Use: "usage", Short: "Sum up the GPU time, its use and the energy of ended tasks", Args: cli.RequireArgs(),
		RunE: func(c *cobra.Command, _ []string) error { return a.showUsage(c.Context(), &f) },
	}
	c.Long = c.Short + ".\nAn attempt counts where it ended, with all its time; running tasks do not count yet: see top.\n" +
		"What is used of roles' budgets in this month (UTC) follows, with the time of running tasks until now.\n" +
		"DUTY and MEMORY are averages over the part of the time that the agents have measured, ENERGY is by the GPUs' own counters.\n" +
		"Times are durations before now (12h, 7d), dates (2026-01-31) or times as in -o json."
	a.AddOutputFlag(c)
	s := c.Flags()
	s.StringSliceVar(&f.by, "by", []string{"user"}, "keys of the lines, separated by commas: "+strings.Join(api.AccountingKeys(), ", "))
	s.StringVar(&f.since, "since", "30d", "only what ended since then")
	s.StringVar(&f.until, "until", "", "only what ended before then")
	s.StringVar(&f.query.User, "owner", "", "only jobs of this user")
	s.StringVar(&f.query.Role, "role", "", "only jobs of this role")
	s.StringVar(&f.query.Job, "job", "", "only this job, or a run of it: NAME@RUN")
	s.StringVar(&f.state, "state", "", "only what ended in this state, such as failed")
	s.BoolVar(&f.attempts, "attempts", false, "one line for each ended attempt, the oldest first, instead of sums")
	s.BoolVar(&f.csv, "csv", false, "print comma-separated values, with seconds and joules")
	cli.CompleteFixed(c, "by", api.AccountingKeys())
	return c
}

// accountingQuery returns the query of the flags.
func (f *usageFlags) accountingQuery(now time.Time) (q api.AccountingQuery, err error) {
	q = f.query
	q.By, q.State = f.by, job.State(strings.ToUpper(f.state))
	if q.State != "" && !slices.Contains(job.States(), q.State) {
		return q, &cli.UsageError{Err: fmt.Errorf("--state %s: it is not a state of tasks", f.state)}
	}
	for i, key := range q.By {
		if !slices.Contains(api.AccountingKeys(), key) || slices.Contains(q.By[:i], key) {
			return q, &cli.UsageError{Err: fmt.Errorf("--by %s: each key is one of %s, once", strings.Join(q.By, ","), cli.JoinWithOr(api.AccountingKeys()))}
		}
	}
	if q.Since, err = parseTimeFlag("since", f.since, now); err != nil {
		return q, err
	}
	q.Until, err = parseTimeFlag("until", f.until, now)
	return q, err
}

// parseTimeFlag parses a duration before now, a local date or a time; "" is the zero time.
func parseTimeFlag(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := jobfile.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return time.Time{},
		&cli.UsageError{Err: fmt.Errorf("--%s %s: use a duration such as 12h or 7d, a date such as 2026-01-31, or a time such as 2026-01-31T08:00:00Z", flag, text)}
}

func (a *clusterCommands) showUsage(ctx context.Context, f *usageFlags) error {
	if f.csv && a.ForPrograms {
		return &cli.UsageError{Err: errors.New("--csv is a format of its own: omit -o")}
	}
	q, err := f.accountingQuery(time.Now())
	if err != nil {
		return err
	}
	c, err := a.NewClient()
	if err != nil {
		return err
	}
	if f.attempts {
		return a.showAttempts(ctx, c, q, f)
	}
	report, err := c.ReportAccounting(ctx, q)
	if err != nil {
		return err
	}
	if !report.Oldest.IsZero() && report.Oldest.After(q.Since) {
		fmt.Fprintf(a.Stderr, "mesos-gpu: the accounting begins at %s\n", report.Oldest.Format(time.RFC3339))
	}
	if f.csv {
		return writeGroupsCSV(a.Stdout, &report)
	}
	var roles []api.RoleStatus
	if !a.ForPrograms && q.Job == "" && q.State == "" {
		if roles, err = c.ListRoles(ctx); err != nil {
			return err
		}
	}
	return a.PrintResult(cli.CommandResult{Data: report, Print: func(p *term.TablePrinter) error {
		return errors.Join(printGroups(p, &report), printRoleBudgets(p, roles, q.Role, q.User))
	}}, a.NewPrinter())
}

// printGroups prints the groups, and a line with the total if there are several.
func printGroups(p *term.TablePrinter, report *api.AccountingReport) error {
	rows := report.Groups
	if len(rows) > 1 {
		total := map[string]string{}
		if len(report.By) > 0 {
			total[report.By[0]] = "total"
		}
		rows = append(slices.Clone(rows), api.AccountingGroup{Keys: total, AccountingSums: report.Total})
	}
	if len(report.By) == 0 {
		rows = []api.AccountingGroup{{AccountingSums: report.Total}}
	}
	var columns []term.TableColumn[api.AccountingGroup]
	for _, key := range report.By {
		columns = append(columns, term.TableColumn[api.AccountingGroup]{
			Name:  strings.ToUpper(key),
			Value: func(g api.AccountingGroup) string { return term.DashIfEmpty(g.Keys[key]) },
		})
	}
	columns = append(columns, []term.TableColumn[api.AccountingGroup]{
		{Name: "ATTEMPTS", Value: func(g api.AccountingGroup) string { return strconv.Itoa(g.Attempts) }},
		{Name: "GPU TIME", Value: func(g api.AccountingGroup) string { return cli.FormatGPUHours(g.GPUSeconds) }},
		{Name: "UNFINISHED", Value: func(g api.AccountingGroup) string { return cli.FormatGPUHours(g.UnfinishedGPUSeconds) }},
		{Name: "DUTY", Value: func(g api.AccountingGroup) string { return cli.FormatPercent(g.Usage.Duty()) }},
		{Name: "MEMORY", Value: func(g api.AccountingGroup) string { return cli.FormatPercent(g.Usage.MemFraction()) }},
		{Name: "ENERGY", Value: func(g api.AccountingGroup) string { return cli.FormatEnergy(g.Usage.Joules) }},
		{Name: "WAIT", Value: func(g api.AccountingGroup) string { return formatMeanWait(&g.AccountingSums) }},
	}...)
	return term.PrintTable(p.DropFirst("ENERGY", "MEMORY", "WAIT", "UNFINISHED").WithEmptyText("No attempt ended in this time."), rows, columns,
		term.TableColumn[api.AccountingGroup]{Name: "CPU TIME", Value: func(g api.AccountingGroup) string { return cli.FormatGPUHours(g.CPUSeconds) }},
		term.TableColumn[api.AccountingGroup]{Name: "MEASURED", Value: func(g api.AccountingGroup) string { return cli.FormatGPUHours(g.Usage.GPUSeconds) }},
		term.TableColumn[api.AccountingGroup]{Name: "FAILED", Value: func(g api.AccountingGroup) string { return strconv.Itoa(g.Unfinished) }},
	)
}

// formatMeanWait returns the average time for which an attempt waited.
func formatMeanWait(s *api.AccountingSums) string {
	if s.Attempts == 0 {
		return "-"
	}
	return term.FormatDuration(time.Duration(s.WaitSeconds / float64(s.Attempts) * float64(time.Second)))
}

func (a *clusterCommands) showAttempts(ctx context.Context, c *client.Client, q api.AccountingQuery, f *usageFlags) error {
	if f.csv {
		return writeAttemptsCSV(a.Stdout, c.EachAccountedAttempt(ctx, q))
	}
	list := []api.AccountedAttempt{}
	for one, err := range c.EachAccountedAttempt(ctx, q) {
		if err != nil {
			return err
		}
		list = append(list, one)
	}
	return a.PrintResult(cli.CommandResult{Data: list, Print: func(p *term.TablePrinter) error { return printAttempts(p, list) }}, a.NewPrinter())
}

func printAttempts(p *term.TablePrinter, list []api.AccountedAttempt) error {
	return term.PrintTable(p.DropFirst("ENERGY", "MEMORY", "WAIT", "USER", "ROLE", "HOST").WithEmptyText("No attempt ended in this time."),
		list, []term.TableColumn[api.AccountedAttempt]{
			{Name: "TASK", Value: func(t api.AccountedAttempt) string { return t.Task }},
			{Name: "USER", Value: func(t api.AccountedAttempt) string { return term.DashIfEmpty(t.Owner) }},
			{Name: "ROLE", Value: func(t api.AccountedAttempt) string { return t.Role }},
			{Name: "STATE", Value: func(t api.AccountedAttempt) string { return string(t.State) }},
			{Name: "REASON", Value: func(t api.AccountedAttempt) string { return term.DashIfEmpty(t.Reason) }},
			{Name: "GPUS", Value: func(t api.AccountedAttempt) string { return term.DashIfEmpty(formatByType(t.GPUTypes)) }},
			{Name: "GPU TIME", Value: func(t api.AccountedAttempt) string { return cli.FormatGPUHours(t.GPUSeconds) }},
			{Name: "DUTY", Value: func(t api.AccountedAttempt) string { return cli.FormatPercent(usageOf(&t).Duty()) }},
			{Name: "MEMORY", Value: func(t api.AccountedAttempt) string { return cli.FormatPercent(usageOf(&t).MemFraction()) }},
			{Name: "ENERGY", Value: func(t api.AccountedAttempt) string { return cli.FormatEnergy(usageOf(&t).Joules) }},
			{Name: "WAIT", Value: func(t api.AccountedAttempt) string {
				return term.FormatDuration(time.Duration(t.WaitSeconds * float64(time.Second)))
			}},
			{Name: "ENDED", Value: func(t api.AccountedAttempt) string { return term.FormatTime(t.Ended) }},
		},
		term.TableColumn[api.AccountedAttempt]{Name: "HOST", Value: func(t api.AccountedAttempt) string { return term.DashIfEmpty(t.Host) }},
	)
}

func usageOf(t *api.AccountedAttempt) *api.MeasuredUsage {
	if t.Usage == nil {
		return &api.MeasuredUsage{}
	}
	return t.Usage
}

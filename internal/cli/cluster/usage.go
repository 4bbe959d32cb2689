package cluster

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
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
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	return time.Time{}, &cli.UsageError{Err: fmt.Errorf("--%s %s: use a duration such as 12h or 7d, a date such as 2026-01-31, or a time such as 2026-01-31T08:00:00Z", flag, text)}
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
		return a.showAttempts(ctx, c, q, f.csv)
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
	return a.PrintResult(cli.CommandResult{Data: report, Print: func(p *term.TablePrinter) error { return printGroups(p, &report) }}, a.NewPrinter())
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
		columns = append(columns, term.TableColumn[api.AccountingGroup]{Name: strings.ToUpper(key), Value: func(g api.AccountingGroup) string { return term.DashIfEmpty(g.Keys[key]) }})
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

// sumColumns returns the names and values of the columns of sums for programs.
func sumColumns(s *api.AccountingSums) (names, values []string) {
	for _, c := range []struct {
		name  string
		value float64
	}{
		{"attempts", float64(s.Attempts)}, {"unfinished", float64(s.Unfinished)}, {"gpu_seconds", s.GPUSeconds}, {"unfinished_gpu_seconds", s.UnfinishedGPUSeconds},
		{"cpu_seconds", s.CPUSeconds}, {"wait_seconds", s.WaitSeconds}, {"measured_gpu_seconds", s.Usage.GPUSeconds}, {"busy_gpu_seconds", s.Usage.BusyGPUSeconds},
		{"mem_mib_seconds", s.Usage.MemMiBSeconds}, {"mem_used_mib_seconds", s.Usage.MemUsedMiBSeconds}, {"max_mem_mib", s.Usage.MaxMemMiB}, {"joules", s.Usage.Joules},
	} {
		names, values = append(names, c.name), append(values, formatNumber(c.value))
	}
	return names, values
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func writeGroupsCSV(to io.Writer, report *api.AccountingReport) error {
	w := csv.NewWriter(to)
	names, total := sumColumns(&report.Total)
	_ = w.Write(append(slices.Clone(report.By), names...))
	if len(report.By) == 0 {
		_ = w.Write(total)
	}
	for i := range report.Groups {
		g := &report.Groups[i]
		var row []string
		for _, key := range report.By {
			row = append(row, escapeFormula(g.Keys[key]))
		}
		_, values := sumColumns(&g.AccountingSums)
		_ = w.Write(append(row, values...))
	}
	w.Flush()
	return w.Error()
}

// escapeFormula makes spreadsheets show a text that they would execute. Names of jobs and users are free texts.
func escapeFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

func (a *clusterCommands) showAttempts(ctx context.Context, c *client.Client, q api.AccountingQuery, asCSV bool) error {
	if asCSV {
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
	return term.PrintTable(p.DropFirst("ENERGY", "MEMORY", "WAIT", "USER", "ROLE", "HOST").WithEmptyText("No attempt ended in this time."), list, []term.TableColumn[api.AccountedAttempt]{
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

// writeAttemptsCSV writes one line for each attempt as they are read.
func writeAttemptsCSV(to io.Writer, list func(func(api.AccountedAttempt, error) bool)) error {
	w := csv.NewWriter(to)
	_ = w.Write([]string{"task", "job", "run", "index", "attempt", "user", "role", "host", "state", "reason", "exit_code", "queued", "launched", "started", "ended",
		"cpus", "gpus", "devices", "wait_seconds", "gpu_seconds", "measured_gpu_seconds", "busy_gpu_seconds", "mem_mib_seconds", "mem_used_mib_seconds", "max_mem_mib", "joules"})
	for t, err := range list {
		if err != nil {
			w.Flush()
			return err
		}
		exit := ""
		if t.ExitCode != nil {
			exit = strconv.Itoa(*t.ExitCode)
		}
		u := usageOf(&t)
		row := []string{t.Task, t.Job, strconv.Itoa(t.Run), strconv.Itoa(t.Index), strconv.Itoa(t.Attempt), escapeFormula(t.Owner), t.Role, t.Host, string(t.State), t.Reason, exit}
		for _, at := range []time.Time{t.Queued, t.Launched, t.Started, t.Ended} {
			row = append(row, formatTimeOrEmpty(at))
		}
		row = append(row, formatNumber(t.CPUs), formatByType(t.GPUTypes), strings.Join(slices.Sorted(maps.Keys(t.Devices)), " "))
		for _, v := range []float64{t.WaitSeconds, t.GPUSeconds, u.GPUSeconds, u.BusyGPUSeconds, u.MemMiBSeconds, u.MemUsedMiBSeconds, u.MaxMemMiB, u.Joules} {
			row = append(row, formatNumber(v))
		}
		_ = w.Write(row)
	}
	w.Flush()
	return w.Error()
}

func formatTimeOrEmpty(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

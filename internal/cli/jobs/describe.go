package jobs

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

func (a *jobCommands) describeCommand() *cobra.Command {
	return a.NewShowCommand("describe",
		"Show a job: where its tasks run, why they wait, and how earlier attempts ended", []string{"JOB"},
		func(ctx context.Context, api *client.Client, args []string) (cli.CommandResult, error) {
			j, err := api.GetJob(ctx, args[0])
			if isNotFound(err) {
				return describeSchedule(ctx, api, args[0], err)
			}
			appendix := jobAppendix{}
			if err == nil && !a.ForPrograms {
				appendix = readAppendix(ctx, api, args[0], &j)
			}
			return cli.CommandResult{Data: j, Print: func(p *term.TablePrinter) error {
				if err := printJob(p, &j); err != nil {
					return err
				}
				return appendix.print(p)
			}}, err
		})
}

func printJob(p *term.TablePrinter, j *api.JobView) error {
	s := *j.Spec
	var facts []term.LabeledFact
	line := func(name, format string, args ...any) {
		facts = append(facts, term.LabeledFact{Name: name, Text: fmt.Sprintf(format, args...)})
	}
	line("job", "%s", s.Name)
	if j.Number > 0 {
		line("number", "%d", j.Number)
	}
	if j.Run > 1 {
		line("run", "%d", j.Run)
	}
	if j.Version > 0 {
		line("version", "%d, which %s have", j.Version, formatUpdated(j))
	}
	line("state", "%s", j.State)
	if j.WaitReason != "" {
		line("waits", "%s", j.WaitReason)
	}
	switch {
	case j.Start != nil:
		line("starts", "%s", cli.DescribeStartEstimate(j.Start, time.Now()))
	case len(j.Warnings) > 0:
		line("starts", "%s", cli.NeverStarts)
	}
	if j.Hold != nil {
		line("held", "%s", describeHold(j.Hold))
	}
	if len(j.Tasks) > 1 {
		line("tasks", "%s", formatTaskStates(j))
	}
	times := timesOf(j)
	line("submitted", "%s", j.Submitted.Format(time.RFC3339))
	line("queued for", "%s", term.FormatDuration(times.queueTime(time.Now())))
	if !times.started.IsZero() {
		line("started", "%s", term.FormatTime(times.started))
		if !times.ended.IsZero() {
			line("ended", "%s", term.FormatTime(times.ended))
		}
		line("duration", "%s", times.formatDuration(time.Now()))
	}
	line("each task", "%s, %s, %g MiB", s.Request, formatCPUs(s.CPUs), s.MemMiB)
	line("container", "%s %s", s.Containerizer, cmp.Or(s.Image, "without an image"))
	facts = append(facts, term.LabeledFact{Name: "command", Text: formatCommand(s.Command), KeepLines: true})
	if v := s.Service; v != nil {
		line("service", "wants %d %s; pauses of %s by %g to %s before one is started again", j.WantedTasks(),
			gpu.Plural(j.WantedTasks(), "task"), v.Backoff.Initial, v.Backoff.Factor, v.Backoff.Max)
	}
	if s.Service != nil && s.Service.Autoscaling.IsSet() {
		line("autoscaling", "%s", describeAutoscaling(j))
	}
	if n := len(j.Changes); n > 0 {
		last := &j.Changes[n-1]
		line("changed", "%s, %s", last.Time.Format(time.RFC3339), last.Message())
	}
	if s.HealthCheck != nil && !j.Terminal {
		line("healthy", "%s", formatHealthy(j))
	}
	if len(s.After) > 0 {
		line("after", "%s", formatDependencies(s.After))
	}
	if s.MaxParallel > 0 {
		line("parallel", "%d at a time", s.MaxParallel)
	}
	wishes, err := otherJobKeys(&s, p.Wide)
	if err != nil {
		return err
	}
	p.PrintFacts(append(facts, wishes...))
	fmt.Fprintln(p)
	err = term.PrintTable(p.DropFirst(append(term.ColumnNames(matrixColumns(&s)), "PORTS", "GPUS", "HEALTH", "AGENT", "EXIT")...),
		unretiredTasks(j), append([]term.TableColumn[job.Task]{
			{Name: "TASK", Value: func(t job.Task) string { return t.ID }},
			{Name: "STATE", Value: func(t job.Task) string { return string(t.State) }},
			{Name: "HEALTH", Value: func(t job.Task) string { return formatHealth(&t) }},
			{Name: "AGENT", Value: func(t job.Task) string { return term.DashIfEmpty(t.Hostname) }},
			{Name: "PORTS", Value: func(t job.Task) string { return term.DashIfEmpty(strings.Trim(fmt.Sprint(t.Ports), "[]")) }},
			{Name: "GPUS", Value: func(t job.Task) string { return term.DashIfEmpty(formatDevices(&t)) }},
		}, append(matrixColumns(&s), endingColumns(&s)...)...), timeColumns()...)
	if err != nil || len(j.Attempts) == 0 {
		return err
	}
	fmt.Fprintln(p)
	return term.PrintTable(p.DropFirst("AGENT", "EXIT"), j.Attempts, append([]term.TableColumn[job.Task]{
		{Name: "EARLIER ATTEMPT", Value: func(t job.Task) string { return t.ID }},
		{Name: "STATE", Value: func(t job.Task) string { return string(t.State) }},
		{Name: "AGENT", Value: func(t job.Task) string { return term.DashIfEmpty(t.Hostname) }},
	}, endingColumns(&s)...), timeColumns()...)
}

// describeAutoscaling returns the bounds, and the result of the last measurement or else the
// target.
func describeAutoscaling(j *api.JobView) string {
	a := &j.Spec.Service.Autoscaling
	text := fmt.Sprintf("%d to %d tasks; ", a.Min, a.Max)
	if j.Autoscaling != nil {
		return text + j.Autoscaling.Reason
	}
	return text + fmt.Sprintf("%s %g a task; not measured yet", a.Target.Name(), a.Target.Wanted())
}

// unretiredTasks returns the tasks of a job without those by which a service was scaled
// down.
func unretiredTasks(j *api.JobView) []job.Task {
	return slices.DeleteFunc(slices.Clone(j.Tasks), func(t job.Task) bool { return t.IsRetired() })
}

// plainShellWord matches words that a shell takes as they are.
var plainShellWord = regexp.MustCompile(`^[\w%+,./:=@-]+$`)

// formatCommand formats a command as text for a shell: of sh -c the script.
func formatCommand(command []string) string {
	if len(command) == 3 && command[0] == "/bin/sh" && command[1] == "-c" {
		return command[2]
	}
	words := make([]string, len(command))
	for i, word := range command {
		if words[i] = word; !plainShellWord.MatchString(word) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// formatCPUs formats a number of CPUs, such as "1 CPU" or "0.5 CPUs".
func formatCPUs(n float64) string {
	if n == 1 {
		return "1 CPU"
	}
	return fmt.Sprintf("%g CPUs", n)
}

// endingColumns returns the columns about how a task of the job ended, or its last message.
func endingColumns(s *job.Spec) []term.TableColumn[job.Task] {
	return []term.TableColumn[job.Task]{
		{Name: "EXIT", Value: func(t job.Task) string {
			if t.ExitCode == nil {
				return "-"
			}
			return fmt.Sprint(*t.ExitCode)
		}},
		{Name: "MESSAGE", Value: func(t job.Task) string {
			if t.State == job.Failed {
				return describeEnd(s, &t)
			}
			return t.Message
		}},
	}
}

func timeColumns() []term.TableColumn[job.Task] {
	return []term.TableColumn[job.Task]{
		{Name: "STARTED", Value: func(t job.Task) string { return term.FormatTime(t.Started) }},
		{Name: "ENDED", Value: func(t job.Task) string { return term.FormatTime(t.Ended) }},
		{Name: "REASON", Value: func(t job.Task) string { return term.DashIfEmpty(t.Reason) }},
	}
}

// formatDevices lists the GPUs that a task holds. For a shared GPU it adds the task's
// share.
func formatDevices(t *job.Task) string {
	_, parts := gpu.ExcludeShared(len(t.DeviceIDs), t.DeviceIDs, t.Shares)
	if len(t.Shares) == 0 {
		return strings.Join(parts, ",")
	}
	for _, p := range t.Shares {
		parts = append(parts, p.String())
	}
	return strings.Join(parts, ", ")
}

// formatHealth returns the last result of a task's health checks.
func formatHealth(t *job.Task) string {
	words := map[bool]string{true: "healthy", false: "unhealthy"}
	var found []string
	if t.Healthy != nil {
		found = append(found, words[*t.Healthy])
	}
	if t.Check != "" {
		found = append(found, "check: "+t.Check)
	}
	return cmp.Or(strings.Join(found, ", "), "-")
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func (a *cliApp) describeCommand() *cobra.Command {
	return a.newShowCommand("describe", "Show a job: where its tasks run, why they wait, and how earlier attempts ended", []string{"JOB"}, func(ctx context.Context, api *client.Client, args []string) (commandResult, error) {
		j, err := api.GetJob(ctx, args[0])
		if isNotFound(err) {
			return describeSchedule(ctx, api, args[0], err)
		}
		return commandResult{j, func(p *tablePrinter) error { return printJob(p, &j) }}, err
	})
}

func printJob(p *tablePrinter, j *api.JobView) error {
	s := j.Spec
	var facts []labeledFact
	line := func(name, format string, args ...any) {
		facts = append(facts, labeledFact{name, fmt.Sprintf(format, args...)})
	}
	line("job", "%s", s.Name)
	line("state", "%s", j.State)
	if j.WaitReason != "" {
		line("waits", "%s", j.WaitReason)
	}
	line("submitted", "%s", j.Submitted.Format(time.RFC3339))
	line("each task", "%s, %s, %g MiB", s.Request, formatCPUs(s.CPUs), s.MemMiB)
	line("container", "%s %s", s.Containerizer, cmp.Or(s.Image, "without an image"))
	line("command", "%q", s.Command)
	if v := s.Service; v != nil {
		line("service", "wants %d %s; pauses of %s by %g to %s before one is started again", j.WantedTasks(), gpu.Plural(j.WantedTasks(), "task"), v.Backoff.Initial, v.Backoff.Factor, v.Backoff.Max)
	}
	if len(s.After) > 0 {
		line("after", "%s", formatDependencies(s.After))
	}
	if s.MaxParallel > 0 {
		line("parallel", "%d at a time", s.MaxParallel)
	}
	wishes, err := otherJobKeys(&s, p.wide)
	if err != nil {
		return err
	}
	p.printFacts(append(facts, wishes...))
	fmt.Fprintln(p)
	err = printTable(p.dropFirst(append(columnNames(matrixColumns(&s)), "PORTS", "GPUS", "HEALTH", "AGENT", "EXIT")...), j.Tasks, append([]tableColumn[job.Task]{
		{"TASK", func(t job.Task) string { return t.ID }},
		{"STATE", func(t job.Task) string { return string(t.State) }},
		{"HEALTH", func(t job.Task) string { return formatHealth(&t) }},
		{"AGENT", func(t job.Task) string { return dashIfEmpty(t.Hostname) }},
		{"PORTS", func(t job.Task) string { return dashIfEmpty(strings.Trim(fmt.Sprint(t.Ports), "[]")) }},
		{"GPUS", func(t job.Task) string { return dashIfEmpty(formatDevices(&t)) }},
	}, append(matrixColumns(&s), endingColumns()...)...), timeColumns()...)
	if err != nil || len(j.Attempts) == 0 {
		return err
	}
	fmt.Fprintln(p)
	return printTable(p.dropFirst("AGENT", "EXIT"), j.Attempts, append([]tableColumn[job.Task]{
		{"EARLIER ATTEMPT", func(t job.Task) string { return t.ID }},
		{"STATE", func(t job.Task) string { return string(t.State) }},
		{"AGENT", func(t job.Task) string { return dashIfEmpty(t.Hostname) }},
	}, endingColumns()...), timeColumns()...)
}

// formatCPUs reads "1 CPU", "0.5 CPUs".
func formatCPUs(n float64) string {
	if n == 1 {
		return "1 CPU"
	}
	return fmt.Sprintf("%g CPUs", n)
}

// endingColumns are how a task ended, or what it said last.
func endingColumns() []tableColumn[job.Task] {
	return []tableColumn[job.Task]{
		{"EXIT", func(t job.Task) string {
			if t.ExitCode == nil {
				return "-"
			}
			return fmt.Sprint(*t.ExitCode)
		}},
		{"MESSAGE", func(t job.Task) string { return t.Message }},
	}
}

func timeColumns() []tableColumn[job.Task] {
	return []tableColumn[job.Task]{
		{"STARTED", func(t job.Task) string { return formatTime(t.Started) }},
		{"ENDED", func(t job.Task) string { return formatTime(t.Ended) }},
		{"REASON", func(t job.Task) string { return dashIfEmpty(t.Reason) }},
	}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// formatDevices are the GPUs that a task holds, with what it holds of those that
// others share.
func formatDevices(t *job.Task) string {
	if len(t.Shares) == 0 {
		return strings.Join(t.DeviceIDs, ",")
	}
	parts := make([]string, len(t.Shares))
	for i, p := range t.Shares {
		parts[i] = p.String()
	}
	return strings.Join(parts, ", ")
}

// formatHealth is what a task's checks found last.
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

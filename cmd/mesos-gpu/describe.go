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

func (a *app) describeCommand() *cobra.Command {
	return a.show("describe", "Show a job: where its tasks run, why they wait, and how earlier attempts ended", []string{"JOB"}, func(ctx context.Context, api *client.Client, args []string) (shown, error) {
		j, err := api.Job(ctx, args[0])
		if missing(err) {
			return describedSchedule(ctx, api, args[0], err)
		}
		return shown{j, func(p *printer) error { return describe(p, &j) }}, err
	})
}

func describe(p *printer, j *api.JobView) error {
	s := j.Spec
	var facts []fact
	line := func(name, format string, args ...any) {
		facts = append(facts, fact{name, fmt.Sprintf(format, args...)})
	}
	line("job", "%s", s.Name)
	line("state", "%s", j.State)
	if j.Waits != "" {
		line("waits", "%s", j.Waits)
	}
	line("submitted", "%s", j.Submitted.Format(time.RFC3339))
	line("each task", "%s, %s, %g MiB", s.Request, cpus(s.CPUs), s.MemMiB)
	line("container", "%s %s", s.Containerizer, cmp.Or(s.Image, "without an image"))
	line("command", "%q", s.Command)
	if v := s.Service; v != nil {
		line("service", "wants %d %s; pauses of %s by %g to %s before one is started again", j.Wanted(), gpu.Plural(j.Wanted(), "task"), v.Backoff.Initial, v.Backoff.Factor, v.Backoff.Max)
	}
	if len(s.After) > 0 {
		line("after", "%s", afterOf(s.After))
	}
	if s.MaxParallel > 0 {
		line("parallel", "%d at a time", s.MaxParallel)
	}
	wishes, err := wishesOf(&s, p.wide)
	if err != nil {
		return err
	}
	p.facts(append(facts, wishes...))
	fmt.Fprintln(p)
	err = tableOf(p.spare(append(names(matrixColumns(&s)), "PORTS", "GPUS", "HEALTH", "AGENT", "EXIT")...), j.Tasks, append([]column[job.Task]{
		{"TASK", func(t job.Task) string { return t.ID }},
		{"STATE", func(t job.Task) string { return string(t.State) }},
		{"HEALTH", func(t job.Task) string { return healthOf(&t) }},
		{"AGENT", func(t job.Task) string { return orDash(t.Hostname) }},
		{"PORTS", func(t job.Task) string { return orDash(strings.Trim(fmt.Sprint(t.Ports), "[]")) }},
		{"GPUS", func(t job.Task) string { return orDash(devicesOf(&t)) }},
	}, append(matrixColumns(&s), endings()...)...), times()...)
	if err != nil || len(j.Attempts) == 0 {
		return err
	}
	fmt.Fprintln(p)
	return tableOf(p.spare("AGENT", "EXIT"), j.Attempts, append([]column[job.Task]{
		{"EARLIER ATTEMPT", func(t job.Task) string { return t.ID }},
		{"STATE", func(t job.Task) string { return string(t.State) }},
		{"AGENT", func(t job.Task) string { return orDash(t.Hostname) }},
	}, endings()...), times()...)
}

// cpus reads "1 CPU", "0.5 CPUs".
func cpus(n float64) string {
	if n == 1 {
		return "1 CPU"
	}
	return fmt.Sprintf("%g CPUs", n)
}

// endings are how a task ended, or what it said last.
func endings() []column[job.Task] {
	return []column[job.Task]{
		{"EXIT", func(t job.Task) string {
			if t.ExitCode == nil {
				return "-"
			}
			return fmt.Sprint(*t.ExitCode)
		}},
		{"MESSAGE", func(t job.Task) string { return t.Message }},
	}
}

func times() []column[job.Task] {
	return []column[job.Task]{
		{"STARTED", func(t job.Task) string { return moment(t.Started) }},
		{"ENDED", func(t job.Task) string { return moment(t.Ended) }},
		{"REASON", func(t job.Task) string { return orDash(t.Reason) }},
	}
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

// devicesOf are the GPUs that a task holds, with what it holds of those that
// others share.
func devicesOf(t *job.Task) string {
	if len(t.Parts) == 0 {
		return strings.Join(t.DeviceIDs, ",")
	}
	parts := make([]string, len(t.Parts))
	for i, p := range t.Parts {
		parts[i] = p.String()
	}
	return strings.Join(parts, ", ")
}

// healthOf is what a task's checks found last.
func healthOf(t *job.Task) string {
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

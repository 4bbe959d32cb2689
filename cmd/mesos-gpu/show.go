package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func (a *app) psCommand() *cobra.Command {
	return a.show("ps", "List jobs", nil, func(c *cobra.Command, api *client.Client, _ []string) (any, func() error, error) {
		jobs, err := api.Jobs(c.Context())
		return jobs, func() error {
			err := a.table("JOB\tSTATE\tTASKS\tHEALTHY\tGPUS\tSUBMITTED\tWAITS", len(jobs), func(i int) string {
				j := jobs[i]
				return fmt.Sprintf("%s\t%s\t%d\t%s\t%s\t%s\t%s", j.Spec.Name, j.State, j.Wanted(), healthy(&j), j.Spec.Request, ago(j.Submitted), j.Waits)
			})
			return errors.Join(err, a.withSchedules(c.Context(), api))
		}, err
	})
}

func (a *app) describeCommand() *cobra.Command {
	return a.show("describe", "Show a job: where its tasks run, or why they wait", []string{"JOB"}, func(c *cobra.Command, api *client.Client, args []string) (any, func() error, error) {
		j, err := api.Job(c.Context(), args[0])
		if noSuch(err) {
			return a.describeSchedule(c.Context(), api, args[0], err)
		}
		return j, func() error { return a.describe(j) }, err
	})
}

func (a *app) describe(j api.JobView) error {
	s := j.Spec
	line := func(name, format string, args ...any) {
		fmt.Fprintf(a.out, "%-11s "+format+"\n", append([]any{name}, args...)...)
	}
	line("job", "%s", s.Name)
	line("state", "%s", j.State)
	if j.Waits != "" {
		line("waits", "%s", j.Waits)
	}
	line("submitted", "%s", j.Submitted.Format(time.RFC3339))
	line("each task", "%s, %g CPUs, %g MiB", s.Request, s.CPUs, s.MemMiB)
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
	values := valuesOf(&s)
	fmt.Fprintln(a.out)
	return a.table("TASK\tSTATE\tHEALTH\tAGENT\tPORTS\tGPUS\tEXIT"+values.title+"\tMESSAGE", len(j.Tasks), func(i int) string {
		t := j.Tasks[i]
		exit := "-"
		if t.ExitCode != nil {
			exit = fmt.Sprint(*t.ExitCode)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s%s\t%s", t.ID, t.State, healthOf(&t), cmp.Or(t.Hostname, "-"), cmp.Or(strings.Trim(fmt.Sprint(t.Ports), "[]"), "-"), cmp.Or(devicesOf(&t), "-"), exit, values.of(t.Index), t.Message)
	})
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

// healthy counts the tasks that run and are well.
func healthy(j *api.JobView) string {
	if j.Spec.HealthCheck == nil {
		return "-"
	}
	n := 0
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State == job.Running && t.Healthy != nil && *t.Healthy {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, j.Wanted())
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

func (a *app) agentsCommand() *cobra.Command {
	return a.show("agents", "List the cluster's agents", nil, func(c *cobra.Command, api *client.Client, _ []string) (any, func() error, error) {
		agents, err := api.Agents(c.Context())
		return agents, func() error {
			return a.table("AGENT\tHOST\tGPUS\tFREE\tTYPES\tDRIVER\tCUDA\tCPUS\tMEMORY", len(agents), func(i int) string {
				g := agents[i]
				return fmt.Sprintf("%s\t%s\t%d\t%d\t%s\t%s\t%s\t%g\t%.0f MiB", g.ID, g.Hostname, g.GPUs, g.GPUsFree,
					cmp.Or(strings.Join(g.Types, ","), "-"), cmp.Or(g.Driver, "-"), cmp.Or(g.CUDA, "-"), g.CPUs, g.MemMiB)
			})
		}, err
	})
}

func (a *app) gpusCommand() *cobra.Command {
	return a.show("gpus", "List every GPU and who holds it", nil, func(c *cobra.Command, api *client.Client, _ []string) (any, func() error, error) {
		gpus, err := api.GPUs(c.Context())
		return gpus, func() error {
			err := a.table("HOST\tTYPE\tMODEL\tMEMORY\tUUID\tSHARED\tTASK", len(gpus), func(i int) string {
				g := gpus[i]
				return fmt.Sprintf("%s\t%s\t%s\t%d MiB\t%s\t%s\t%s", g.Hostname, g.Type, g.Model, g.MemMiB, cmp.Or(g.UUID, "-"), sharedOf(g.Shared), cmp.Or(g.Task, "-"))
			})
			fmt.Fprintln(a.out, heldOf(gpus))
			return err
		}, err
	})
}

// sharedOf reads "9216/15360 MiB, 60/100 % (mps)", what is taken of what there
// is, and what holds tasks to their parts.
func sharedOf(s *api.Shared) string {
	if s == nil {
		return "-"
	}
	text := fmt.Sprintf("%d/%d MiB, %d/%d %%", s.MemMiB-s.MemFreeMiB, s.MemMiB, s.Cores-s.CoresFree, s.Cores)
	if s.Limit != "" {
		text += fmt.Sprintf(" (%s)", s.Limit)
	}
	return text
}

// heldOf sums up who holds what: whole GPUs, and memory of shared ones.
func heldOf(gpus []api.GPU) string {
	whole, held, shared := 0, 0, 0
	var all, free int64
	for _, g := range gpus {
		if s := g.Shared; s != nil {
			shared++
			all, free = all+s.MemMiB, free+s.MemFreeMiB
			continue
		}
		if whole++; g.Task != "" {
			held++
		}
	}
	text := fmt.Sprintf("%d of %d %s held", held, whole, gpu.Plural(whole, "GPU"))
	if shared == 0 {
		return text
	}
	if text += "; "; whole == 0 {
		text = ""
	}
	return text + fmt.Sprintf("%d/%d MiB (%d %%) of %d shared %s", all-free, all, percent(all-free, all), shared, gpu.Plural(shared, "GPU"))
}

func percent(part, all int64) int64 {
	if all == 0 {
		return 0
	}
	return 100 * part / all
}

// show makes a command that fetches something and prints it for people or as
// JSON.
func (a *app) show(name, short string, wants []string, fetch func(*cobra.Command, *client.Client, []string) (any, func() error, error)) *cobra.Command {
	c := &cobra.Command{
		Use: strings.Join(append([]string{name}, wants...), " "), Short: short, Args: args(wants...),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.client()
			if err != nil {
				return err
			}
			v, print, err := fetch(c, api, args)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(v)
			}
			return print()
		},
	}
	a.jsonFlag(c)
	return c
}

func (a *app) logsCommand() *cobra.Command {
	var o client.LogOptions
	errs := false
	c := &cobra.Command{
		Use: "logs TASK", Short: "Print what a task has written", Args: args("TASK"),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := a.client()
			if err != nil {
				return err
			}
			if errs {
				o.Stream = "stderr"
			}
			o.Missed = func() { fmt.Fprintln(a.err, missedOutput) }
			body, err := api.Log(c.Context(), args[0], o)
			if err != nil {
				return err
			}
			defer body.Close()
			if _, err := io.Copy(a.out, body); err != nil && c.Context().Err() == nil {
				return fmt.Errorf("read log of task %s: %w", args[0], err)
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&o.Follow, "follow", "f", false, "go on until the task has ended")
	c.Flags().BoolVar(&errs, "stderr", false, "its standard error instead of its standard output")
	return c
}

// missedOutput is told where a reader was slower than the rotation.
const missedOutput = "mesos-gpu: output is missing here: it was rotated away before it was read"

const day = 24 * time.Hour

// ago is how long ago something was, as people say it.
func ago(t time.Time) string {
	switch d := time.Since(t); {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < day:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd ago", int(d.Hours()/24))
	}
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

// jobSelection says which jobs ps lists, and in which order.
type jobSelection struct {
	all    bool
	role   string
	states []string
	name   string
	sort   string
}

// jobOrders are the ways to sort jobs. Those that are equal stay by submission.
func jobOrders() map[string]func(a, b *api.JobView) int {
	return map[string]func(a, b *api.JobView) int{
		"submitted": func(a, b *api.JobView) int { return a.Submitted.Compare(b.Submitted) },
		"name":      func(a, b *api.JobView) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) },
		"state": func(a, b *api.JobView) int {
			return cmp.Compare(slices.Index(job.States(), a.State), slices.Index(job.States(), b.State))
		},
		"role":     func(a, b *api.JobView) int { return cmp.Compare(a.Spec.Role, b.Spec.Role) },
		"priority": func(a, b *api.JobView) int { return cmp.Compare(a.Spec.Priority, b.Spec.Priority) },
		"gpus": func(a, b *api.JobView) int {
			return cmp.Compare(a.WantedTasks()*a.Spec.Request.GPUs, b.WantedTasks()*b.Spec.Request.GPUs)
		},
	}
}

func (a *cliApp) psCommand() *cobra.Command {
	s := &jobSelection{}
	c := a.newShowCommand("ps", "List the jobs that have not ended", nil, func(ctx context.Context, api *client.Client, _ []string) (commandResult, error) {
		if err := s.validate(); err != nil {
			return commandResult{}, err
		}
		jobs, err := api.ListJobsByState(ctx, s.queryState())
		if err != nil {
			return commandResult{}, err
		}
		jobs = s.selectJobs(jobs)
		schedules, err := api.ListSchedules(ctx)
		return commandResult{jobs, func(p *tablePrinter) error {
			err := printJobs(p, jobs)
			if err != nil || len(schedules) == 0 || p.noHeaders {
				return err
			}
			fmt.Fprintln(p)
			return printSchedules(p, schedules)
		}}, err
	})
	c.Args = func(c *cobra.Command, got []string) error {
		if len(got) > 0 {
			return &usageError{fmt.Errorf("%s takes no %q: mesos-gpu describe %s shows one job, and --name lists those with such names", c.CommandPath(), got[0], got[0])}
		}
		return nil
	}
	f := c.Flags()
	f.BoolVarP(&s.all, "all", "a", false, "also the jobs that have ended and are remembered")
	f.StringVar(&s.role, "role", "", "only jobs of this role")
	f.StringSliceVar(&s.states, "state", nil, "only jobs in these states, such as RUNNING or WAITING,FAILED")
	f.StringVar(&s.name, "name", "", "only jobs whose name is like this: * stands for anything, ? for one character")
	f.StringVar(&s.sort, "sort", "submitted", "sort by "+joinWithOr(jobSortKeys())+"; with a dash before it the other way round")
	completeFixed(c, "state", stateNames())
	completeFixed(c, "sort", jobSortKeys())
	return c
}

func jobSortKeys() []string { return slices.Sorted(maps.Keys(jobOrders())) }

func stateNames() []string { return toStrings(job.States()) }

func (s *jobSelection) validate() error {
	for i, name := range s.states {
		s.states[i] = strings.ToUpper(name)
		if !slices.Contains(stateNames(), s.states[i]) {
			return &usageError{fmt.Errorf("--state %s: use %s", name, joinWithOr(stateNames()))}
		}
	}
	if _, err := path.Match(s.name, ""); err != nil {
		return &usageError{fmt.Errorf("--name %s: a bracket is not closed", s.name)}
	}
	if jobOrders()[strings.TrimPrefix(s.sort, "-")] == nil {
		return &usageError{fmt.Errorf("--sort %s: use %s", s.sort, joinWithOr(jobSortKeys()))}
	}
	return nil
}

// queryState is what the scheduler is asked for. Who asks for a state in which jobs
// have ended wants those too.
func (s *jobSelection) queryState() string {
	ended := slices.ContainsFunc(s.states, func(name string) bool { return !job.State(name).IsLive() })
	if s.all || ended {
		return ""
	}
	return api.LiveJobs
}

func (s *jobSelection) selectJobs(jobs []api.JobView) []api.JobView {
	jobs = slices.DeleteFunc(jobs, func(j api.JobView) bool {
		like, _ := path.Match(s.name, j.Spec.Name) // check has seen the pattern
		return s.name != "" && !like || s.role != "" && j.Spec.Role != s.role || len(s.states) > 0 && !slices.Contains(s.states, string(j.State))
	})
	key, back := strings.CutPrefix(s.sort, "-")
	order := jobOrders()[key]
	slices.SortStableFunc(jobs, func(x, y api.JobView) int {
		if back {
			return order(&y, &x)
		}
		return order(&x, &y)
	})
	return jobs
}

func printJobs(p *tablePrinter, jobs []api.JobView) error {
	p = p.dropFirst("HEALTHY", "SUBMITTED", "TASKS", "GPUS").withEmptyText("No job is here that has not ended, or that was asked for: mesos-gpu ps --all has those that are remembered.")
	return printTable(p, jobs, []tableColumn[api.JobView]{
		{"JOB", func(j api.JobView) string { return j.Spec.Name }},
		{"STATE", func(j api.JobView) string { return string(j.State) }},
		{"TASKS", func(j api.JobView) string { return fmt.Sprint(j.WantedTasks()) }},
		{"HEALTHY", func(j api.JobView) string { return formatHealthy(&j) }},
		{"GPUS", func(j api.JobView) string { return fmt.Sprint(j.Spec.Request) }},
		{"SUBMITTED", func(j api.JobView) string { return formatAge(j.Submitted) }},
		{"WAITS", func(j api.JobView) string { return j.WaitReason }},
	},
		tableColumn[api.JobView]{"ROLE", func(j api.JobView) string { return dashIfEmpty(j.Spec.Role) }},
		tableColumn[api.JobView]{"PRIORITY", func(j api.JobView) string { return fmt.Sprint(j.Spec.Priority) }},
		tableColumn[api.JobView]{"IMAGE", func(j api.JobView) string { return dashIfEmpty(j.Spec.Image) }},
	)
}

// formatHealthy counts the tasks that run and are well.
func formatHealthy(j *api.JobView) string {
	if j.Spec.HealthCheck == nil {
		return "-"
	}
	n := 0
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State == job.Running && t.Healthy != nil && *t.Healthy {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, j.WantedTasks())
}

const day = 24 * time.Hour

// formatAge is how long ago something was, as people say it.
func formatAge(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
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

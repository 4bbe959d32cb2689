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

// selection says which jobs ps lists, and in which order.
type selection struct {
	all    bool
	role   string
	states []string
	name   string
	sort   string
}

// orders are the ways to sort jobs. Those that are equal stay by submission.
func orders() map[string]func(a, b *api.JobView) int {
	return map[string]func(a, b *api.JobView) int{
		"submitted": func(a, b *api.JobView) int { return a.Submitted.Compare(b.Submitted) },
		"name":      func(a, b *api.JobView) int { return cmp.Compare(a.Spec.Name, b.Spec.Name) },
		"state": func(a, b *api.JobView) int {
			return cmp.Compare(slices.Index(job.States(), a.State), slices.Index(job.States(), b.State))
		},
		"role":     func(a, b *api.JobView) int { return cmp.Compare(a.Spec.Role, b.Spec.Role) },
		"priority": func(a, b *api.JobView) int { return cmp.Compare(a.Spec.Priority, b.Spec.Priority) },
		"gpus": func(a, b *api.JobView) int {
			return cmp.Compare(a.Wanted()*a.Spec.Request.GPUs, b.Wanted()*b.Spec.Request.GPUs)
		},
	}
}

func (a *app) psCommand() *cobra.Command {
	s := &selection{}
	c := a.show("ps", "List the jobs that have not ended", nil, func(ctx context.Context, api *client.Client, _ []string) (shown, error) {
		if err := s.check(); err != nil {
			return shown{}, err
		}
		jobs, err := api.JobsIn(ctx, s.scope())
		if err != nil {
			return shown{}, err
		}
		jobs = s.of(jobs)
		schedules, err := api.Schedules(ctx)
		return shown{jobs, func(p *printer) error {
			err := listJobs(p, jobs)
			if err != nil || len(schedules) == 0 || p.bare {
				return err
			}
			fmt.Fprintln(p)
			return listSchedules(p, schedules)
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
	f.StringVar(&s.sort, "sort", "submitted", "sort by "+orList(sortKeys())+"; with a dash before it the other way round")
	fixed(c, "state", stateNames())
	fixed(c, "sort", sortKeys())
	return c
}

func sortKeys() []string { return slices.Sorted(maps.Keys(orders())) }

func stateNames() []string { return words(job.States()) }

func (s *selection) check() error {
	for i, name := range s.states {
		s.states[i] = strings.ToUpper(name)
		if !slices.Contains(stateNames(), s.states[i]) {
			return &usageError{fmt.Errorf("--state %s: use %s", name, orList(stateNames()))}
		}
	}
	if _, err := path.Match(s.name, ""); err != nil {
		return &usageError{fmt.Errorf("--name %s: a bracket is not closed", s.name)}
	}
	if orders()[strings.TrimPrefix(s.sort, "-")] == nil {
		return &usageError{fmt.Errorf("--sort %s: use %s", s.sort, orList(sortKeys()))}
	}
	return nil
}

// scope is what the scheduler is asked for. Who asks for a state in which jobs
// have ended wants those too.
func (s *selection) scope() string {
	ended := slices.ContainsFunc(s.states, func(name string) bool { return !job.State(name).Live() })
	if s.all || ended {
		return ""
	}
	return api.LiveJobs
}

func (s *selection) of(jobs []api.JobView) []api.JobView {
	jobs = slices.DeleteFunc(jobs, func(j api.JobView) bool {
		like, _ := path.Match(s.name, j.Spec.Name) // check has seen the pattern
		return s.name != "" && !like || s.role != "" && j.Spec.Role != s.role || len(s.states) > 0 && !slices.Contains(s.states, string(j.State))
	})
	key, back := strings.CutPrefix(s.sort, "-")
	order := orders()[key]
	slices.SortStableFunc(jobs, func(x, y api.JobView) int {
		if back {
			return order(&y, &x)
		}
		return order(&x, &y)
	})
	return jobs
}

func listJobs(p *printer, jobs []api.JobView) error {
	p = p.spare("HEALTHY", "SUBMITTED", "TASKS", "GPUS").orSay("No job is here that has not ended, or that was asked for: mesos-gpu ps --all has those that are remembered.")
	return tableOf(p, jobs, []column[api.JobView]{
		{"JOB", func(j api.JobView) string { return j.Spec.Name }},
		{"STATE", func(j api.JobView) string { return string(j.State) }},
		{"TASKS", func(j api.JobView) string { return fmt.Sprint(j.Wanted()) }},
		{"HEALTHY", func(j api.JobView) string { return healthy(&j) }},
		{"GPUS", func(j api.JobView) string { return fmt.Sprint(j.Spec.Request) }},
		{"SUBMITTED", func(j api.JobView) string { return ago(j.Submitted) }},
		{"WAITS", func(j api.JobView) string { return j.Waits }},
	},
		column[api.JobView]{"ROLE", func(j api.JobView) string { return orDash(j.Spec.Role) }},
		column[api.JobView]{"PRIORITY", func(j api.JobView) string { return fmt.Sprint(j.Spec.Priority) }},
		column[api.JobView]{"IMAGE", func(j api.JobView) string { return orDash(j.Spec.Image) }},
	)
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

const day = 24 * time.Hour

// ago is how long ago something was, as people say it.
func ago(t time.Time) string {
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

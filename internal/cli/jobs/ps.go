package jobs

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
	"github.com/spf13/pflag"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// jobSelection selects and orders the jobs that ps lists.
type jobSelection struct {
	all    bool
	role   string
	states []string
	name   string
	owner  string
	labels []string
	sort   string
}

// selectsAll reports whether no filter is set but that of ended jobs.
func (s *jobSelection) selectsAll() bool {
	return s.role == "" && len(s.states) == 0 && s.name == "" && s.owner == "" && len(s.labels) == 0
}

// jobOrders returns the sort orders by name. Equal jobs stay in submission order.
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

func (a *jobCommands) psCommand() *cobra.Command {
	s, runsOf := &jobSelection{}, ""
	c := a.NewShowCommand("ps", "List the jobs that have not ended", nil, func(ctx context.Context, api *client.Client, _ []string) (cli.CommandResult, error) {
		if err := s.validate(); err != nil {
			return cli.CommandResult{}, err
		}
		if runsOf != "" {
			runs, err := api.ListRuns(ctx, runsOf)
			runs = s.selectRuns(runs)
			return cli.CommandResult{Data: runs, Print: func(p *term.TablePrinter) error { return printRuns(p, runs) }}, err
		}
		jobs, err := api.ListJobsMatching(ctx, s.jobQuery())
		if err != nil {
			return cli.CommandResult{}, err
		}
		s.sortJobs(jobs)
		schedules, err := api.ListSchedules(ctx)
		return cli.CommandResult{Data: jobs, Print: func(p *term.TablePrinter) error {
			err := printJobs(p, jobs)
			if err != nil || len(schedules) == 0 || p.NoHeaders || !s.selectsAll() {
				return err
			}
			fmt.Fprintln(p)
			return printSchedules(p, schedules)
		}}, err
	})
	c.Args = func(c *cobra.Command, got []string) error {
		if len(got) > 0 {
			return &cli.UsageError{Err: fmt.Errorf("%s takes no %q: mesos-gpu describe %s shows one job, and --name lists those with such names",
				cli.CommandName(c), got[0], got[0])}
		}
		return nil
	}
	f := c.Flags()
	f.BoolVarP(&s.all, "all", "a", false, "also jobs that have ended")
	f.StringVar(&runsOf, "runs", "", "the runs of this job that are kept: submissions of its name")
	f.StringVar(&s.role, "role", "", "only jobs of this role")
	f.StringSliceVar(&s.states, "state", nil, "only jobs in these states, such as RUNNING or WAITING,FAILED")
	f.StringVar(&s.name, "name", "", "only jobs whose name matches: * matches any text, ? one character")
	f.StringVar(&s.owner, "owner", "", "only jobs that this user submitted; also --user")
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "user" {
			name = "owner"
		}
		return pflag.NormalizedName(name)
	})
	f.StringSliceVarP(&s.labels, "label", "l", nil, "only jobs with these labels, NAME=VALUE, or NAME for any value")
	f.StringVar(&s.sort, "sort", "submitted", "sort by "+cli.JoinWithOr(jobSortKeys())+"; a leading dash reverses the order")
	cli.CompleteFixed(c, "state", stateNames())
	_ = c.RegisterFlagCompletionFunc("runs", a.CompleteArgument([]string{"JOB"}))
	cli.CompleteFixed(c, "sort", jobSortKeys())
	return c
}

func jobSortKeys() []string { return slices.Sorted(maps.Keys(jobOrders())) }

func stateNames() []string { return cli.ToStrings(job.States()) }

func (s *jobSelection) validate() error {
	for i, name := range s.states {
		s.states[i] = strings.ToUpper(name)
		if !slices.Contains(stateNames(), s.states[i]) {
			return &cli.UsageError{Err: fmt.Errorf("--state %s: use %s", name, cli.JoinWithOr(stateNames()))}
		}
	}
	if _, err := path.Match(s.name, ""); err != nil {
		return &cli.UsageError{Err: fmt.Errorf("--name %s: a bracket is not closed", s.name)}
	}
	if jobOrders()[strings.TrimPrefix(s.sort, "-")] == nil {
		return &cli.UsageError{Err: fmt.Errorf("--sort %s: use %s", s.sort, cli.JoinWithOr(jobSortKeys()))}
	}
	return nil
}

// jobQuery returns the selection for the API. States of ended jobs include ended jobs.
func (s *jobSelection) jobQuery() api.JobQuery {
	q := api.JobQuery{State: strings.Join(s.states, ","), Role: s.role, Owner: s.owner, Name: s.name, Labels: strings.Join(s.labels, ",")}
	if q.State == "" && !s.all {
		q.State = api.LiveJobs
	}
	return q
}

// selectRuns returns the selected runs of a job, in the selected order. Ended runs are selected
// without --all.
func (s *jobSelection) selectRuns(runs []api.JobView) []api.JobView {
	q := s.jobQuery()
	runs = slices.DeleteFunc(runs, func(j api.JobView) bool {
		return !q.MatchesSpec(j.Spec) || len(s.states) > 0 && !q.MatchesState(j.State, !j.Terminal)
	})
	s.sortJobs(runs)
	return runs
}

// sortJobs sorts jobs, which are in the order of their submission.
func (s *jobSelection) sortJobs(jobs []api.JobView) {
	key, back := strings.CutPrefix(s.sort, "-")
	order := jobOrders()[key]
	slices.SortStableFunc(jobs, func(x, y api.JobView) int {
		if back {
			return order(&y, &x)
		}
		return order(&x, &y)
	})
}

func printJobs(p *term.TablePrinter, jobs []api.JobView) error {
	p = p.DropFirst(term.BarColumn, "HEALTHY", "SUBMITTED", "GPUS", "TASKS").
		WithEmptyText("No job matches that has not ended: mesos-gpu ps --all also lists jobs that have ended.")
	columns := []term.TableColumn[api.JobView]{
		{Name: "JOB", Value: func(j api.JobView) string { return j.Spec.Name }},
		{Name: "STATE", Value: func(j api.JobView) string { return string(j.State) }},
		{Name: "TASKS", Value: func(j api.JobView) string { return formatTaskCount(&j) }},
		{Name: "HEALTHY", Value: func(j api.JobView) string { return formatHealthy(&j) }},
		{Name: "GPUS", Value: func(j api.JobView) string { return formatRequest(&j) }},
		{Name: "SUBMITTED", Value: func(j api.JobView) string { return term.FormatAge(j.Submitted) }},
		{Name: "WAITS", Value: func(j api.JobView) string { return j.WaitReason }},
	}
	if p.Columns > 0 && slices.ContainsFunc(jobs, func(j api.JobView) bool { return j.WantedTasks() > 1 }) {
		columns = slices.Insert(columns, 3, term.TableColumn[api.JobView]{Name: term.BarColumn, Value: func(j api.JobView) string { return formatTaskBar(&j) }})
	}
	return term.PrintTable(p, jobs, columns,
		term.TableColumn[api.JobView]{Name: "ROLE", Value: func(j api.JobView) string { return term.DashIfEmpty(j.Spec.Role) }},
		term.TableColumn[api.JobView]{Name: "PRIORITY", Value: func(j api.JobView) string { return fmt.Sprint(j.Spec.Priority) }},
		term.TableColumn[api.JobView]{Name: "OWNER", Value: func(j api.JobView) string { return term.DashIfEmpty(j.Spec.Owner) }},
		term.TableColumn[api.JobView]{Name: "QUEUED FOR", Value: func(j api.JobView) string { return term.FormatDuration(timesOf(&j).queueTime(time.Now())) }},
		term.TableColumn[api.JobView]{Name: "STARTED", Value: func(j api.JobView) string { return term.FormatTime(timesOf(&j).started) }},
		term.TableColumn[api.JobView]{Name: "ENDED", Value: func(j api.JobView) string { return term.FormatTime(timesOf(&j).ended) }},
		term.TableColumn[api.JobView]{Name: "DURATION", Value: func(j api.JobView) string { return timesOf(&j).formatDuration(time.Now()) }},
		term.TableColumn[api.JobView]{Name: "IMAGE", Value: func(j api.JobView) string { return term.DashIfEmpty(j.Spec.Image) }},
		term.TableColumn[api.JobView]{Name: "LABELS", Value: func(j api.JobView) string { return term.DashIfEmpty(formatLabels(j.Spec.Labels)) }},
	)
}

// formatRequest returns the GPUs of a task; with several tasks, it adds "each".
func formatRequest(j *api.JobView) string {
	if j.Spec.Request.GPUs == 0 || j.WantedTasks() == 1 {
		return j.Spec.Request.String()
	}
	return j.Spec.Request.String() + " each"
}

func formatLabels(labels map[string]string) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, name+"="+labels[name])
	}
	return strings.Join(words, ",")
}

// formatHealthy counts the running tasks that are healthy.
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

package jobs

import (
	"cmp"
	"context"
	"fmt"
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

// jobSelection selects and orders the jobs that ps lists.
type jobSelection struct {
	jobFilter
	all, quiet bool
	sort       string
	// limit is the largest number of jobs, 0 for all, and limited reports whether the user has set it.
	limit   int
	limited bool
}

// endedLimit is the default limit of a table with ended jobs, which the scheduler may keep for years.
const endedLimit = 100

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
	var c *cobra.Command
	c = a.NewShowCommand("ps", "List the jobs that have not ended", nil, func(ctx context.Context, api *client.Client, _ []string) (cli.CommandResult, error) {
		if err := s.validate(); err != nil {
			return cli.CommandResult{}, err
		}
		s.limited = c.Flags().Changed("limit")
		if runsOf != "" {
			runs, err := s.listRuns(ctx, api, runsOf)
			return cli.CommandResult{Data: runs, Print: func(p *term.TablePrinter) error {
				if s.quiet {
					return printNames(p, runs, func(j *job.Job) string { return j.RunID().String() })
				}
				return printRuns(p, runs)
			}}, err
		}
		jobs, more, err := s.listJobs(ctx, api, a.ForPrograms)
		if err != nil || s.quiet {
			return cli.CommandResult{Data: jobs, Print: func(p *term.TablePrinter) error {
				return printNames(p, jobs, func(j *job.Job) string { return j.Spec.Name })
			}}, err
		}
		schedules, err := api.ListSchedules(ctx)
		return cli.CommandResult{Data: jobs, Print: func(p *term.TablePrinter) error {
			if err := printJobs(p, jobs); err != nil {
				return err
			}
			if more {
				fmt.Fprintf(a.Stderr, "mesos-gpu: only the first %d jobs are listed: --limit 0 lists all\n", len(jobs))
			}
			if len(schedules) == 0 || p.NoHeaders || !s.selectsAll() {
				return nil
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
	f.BoolVarP(&s.all, "all", "a", false, "also jobs that have ended, the newest first")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "only the names, each on a line")
	f.StringVar(&runsOf, "runs", "", "the runs of this job that are kept: submissions of its name")
	s.addFilterFlags(c)
	f.StringVar(&s.name, "name", "", "only jobs whose name matches: * matches any text, ? one character")
	f.StringVar(&s.sort, "sort", "",
		"sort by "+cli.JoinWithOr(jobSortKeys())+"; a leading dash reverses the order (default submitted, and -submitted with ended jobs)")
	f.IntVar(&s.limit, "limit", 0, fmt.Sprintf("at most so many jobs; 0 lists all (default %d for a table with ended jobs)", endedLimit))
	_ = c.RegisterFlagCompletionFunc("runs", a.CompleteArgument([]string{"JOB"}))
	cli.CompleteFixed(c, "sort", jobSortKeys())
	return c
}

func jobSortKeys() []string { return slices.Sorted(maps.Keys(jobOrders())) }

func (s *jobSelection) validate() error {
	if err := s.jobFilter.validate(); err != nil {
		return err
	}
	if s.sort != "" && jobOrders()[strings.TrimPrefix(s.sort, "-")] == nil {
		return &cli.UsageError{Err: fmt.Errorf("--sort %s: use %s", s.sort, cli.JoinWithOr(jobSortKeys()))}
	}
	if s.limit < 0 {
		return &cli.UsageError{Err: fmt.Errorf("--limit %d: must be at least 0", s.limit)}
	}
	return nil
}

// includesEnded reports whether ended jobs are selected: by --all, or by their state.
func (s *jobSelection) includesEnded() bool {
	return s.all || slices.ContainsFunc(s.states, func(name string) bool { return !job.State(name).IsLive() })
}

// listJobs returns the selected jobs in the selected order, and whether the limit has left out more. Programs get all unless
// the user has set a limit.
func (s *jobSelection) listJobs(ctx context.Context, c *client.Client, forPrograms bool) (jobs []api.JobView, more bool, err error) {
	q, err := s.query(ctx, c)
	if err != nil {
		return nil, false, err
	}
	if q.State == "" && !s.all {
		q.State = api.LiveJobs
	}
	limit := s.limit
	if !s.limited && s.includesEnded() && !forPrograms && !s.quiet {
		limit = endedLimit
	}
	q.NewestFirst = s.sort == "-submitted" || s.sort == "" && s.includesEnded()
	jobs = []api.JobView{}
	for one, err := range c.EachJobMatching(ctx, q) {
		if err != nil {
			return nil, false, err
		}
		jobs = append(jobs, one)
		if limit > 0 && len(jobs) > limit && (s.sort == "" || q.NewestFirst) {
			break
		}
	}
	if !q.NewestFirst {
		s.sortJobs(jobs)
	}
	if more = limit > 0 && len(jobs) > limit; more {
		jobs = jobs[:limit]
	}
	return jobs, more, nil
}

// listRuns returns the selected runs of a job in the selected order. Ended runs are selected without --all.
func (s *jobSelection) listRuns(ctx context.Context, c *client.Client, name string) ([]api.JobView, error) {
	q, err := s.query(ctx, c)
	if err != nil {
		return nil, err
	}
	runs, err := c.ListRuns(ctx, name)
	runs = slices.DeleteFunc(runs, func(j api.JobView) bool {
		return !q.MatchesSpec(j.Spec) || !q.MatchesState(j.State, !j.Terminal)
	})
	s.sortJobs(runs)
	if s.limit > 0 && len(runs) > s.limit {
		runs = runs[len(runs)-s.limit:]
	}
	return runs, err
}

// sortJobs sorts jobs, which are in the order of their submission.
func (s *jobSelection) sortJobs(jobs []api.JobView) {
	key, back := strings.CutPrefix(cmp.Or(s.sort, "submitted"), "-")
	order := jobOrders()[key]
	slices.SortStableFunc(jobs, func(x, y api.JobView) int {
		if back {
			return order(&y, &x)
		}
		return order(&x, &y)
	})
}

// printNames prints a name for each job.
func printNames(p *term.TablePrinter, jobs []api.JobView, name func(*job.Job) string) error {
	for i := range jobs {
		if _, err := fmt.Fprintln(p, name(&jobs[i].Job)); err != nil {
			return err
		}
	}
	return nil
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
	columns = insertNumbers(columns, jobs)
	if p.Columns > 0 && slices.ContainsFunc(jobs, func(j api.JobView) bool { return j.WantedTasks() > 1 }) {
		bar := slices.IndexFunc(columns, func(c term.TableColumn[api.JobView]) bool { return c.Name == "HEALTHY" })
		columns = slices.Insert(columns, bar, term.TableColumn[api.JobView]{Name: term.BarColumn, Value: func(j api.JobView) string { return formatTaskBar(&j) }})
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

// insertNumbers inserts the numbers of jobs as the second column. A scheduler of an earlier version has none.
func insertNumbers(columns []term.TableColumn[api.JobView], jobs []api.JobView) []term.TableColumn[api.JobView] {
	if !slices.ContainsFunc(jobs, func(j api.JobView) bool { return j.Number > 0 }) {
		return columns
	}
	return slices.Insert(columns, 1, term.TableColumn[api.JobView]{Name: "NUMBER", Value: func(j api.JobView) string { return strconv.Itoa(j.Number) }})
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

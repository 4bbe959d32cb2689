package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// holdTargets are the jobs, users and roles of a hold or release command.
type holdTargets struct {
	jobs, users, roles []string
}

func (t *holdTargets) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&t.users, "user", nil, "all jobs of this user; may be repeated")
	c.Flags().StringArrayVar(&t.roles, "role", nil, "all jobs of this role and the roles below it; may be repeated")
	c.Args = func(c *cobra.Command, names []string) error {
		if t.jobs = names; len(names) == 0 && len(t.users)+len(t.roles) > 0 {
			return nil
		}
		return cli.AtLeast("JOB, --user or --role")(c, names)
	}
}

// each applies a function to each job, and another one to each user and role. done is printed after each success.
func (t *holdTargets) each(a *jobCommands, done string, onJob func(name string) error, onTarget func(job.HoldTarget) error) error {
	var errs []error
	report := func(what string, err error) {
		if err == nil {
			fmt.Fprintln(a.Stdout, term.EscapeControls(what+": "+done))
		}
		errs = append(errs, err)
	}
	for _, name := range t.jobs {
		report("job "+name, onJob(name))
	}
	for _, name := range t.users {
		report("user "+name, onTarget(job.HoldTarget{Kind: job.HeldUser, Name: name}))
	}
	for _, name := range t.roles {
		report("role "+name, onTarget(job.HoldTarget{Kind: job.HeldRole, Name: name}))
	}
	return errors.Join(errs...)
}

func (a *jobCommands) holdCommand() *cobra.Command {
	targets, q := &holdTargets{}, api.HoldRequest{}
	c := &cobra.Command{
		ValidArgsFunction: a.CompleteArgument([]string{"LIVE..."}),
		Use:               "hold [JOB...]", Short: "Keep waiting tasks of jobs, users or roles from starting; running tasks continue",
		RunE: func(c *cobra.Command, _ []string) error {
			if q.Drain && len(targets.jobs) > 0 {
				return &cli.UsageError{Err: errors.New("--drain is for --user and --role: use mesos-gpu requeue --hold JOB")}
			}
			api, err := a.NewClient()
			if err != nil {
				return err
			}
			return targets.each(a, "held", func(name string) error { return api.HoldJob(c.Context(), name, q.Reason) },
				func(t job.HoldTarget) error { return api.HoldJobsOf(c.Context(), t, q) })
		},
	}
	c.Long = c.Short + ".\nJobs keep their place in the queue. A hold of a user or a role also applies to jobs that are submitted later."
	targets.addFlags(c)
	c.Flags().StringVar(&q.Reason, "reason", "", "reason, shown to other users")
	c.Flags().BoolVar(&q.Drain, "drain", false, "with --user or --role: also stop their running tasks, which are queued again")
	return c
}

func (a *jobCommands) releaseCommand() *cobra.Command {
	targets := &holdTargets{}
	c := &cobra.Command{
		ValidArgsFunction: a.CompleteArgument([]string{"LIVE..."}),
		Use:               "release [JOB...]", Short: "End holds of jobs, users or roles",
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, _ []string) error {
			return targets.each(a, "released", func(name string) error { return api.ReleaseJob(ctx, name) },
				func(t job.HoldTarget) error { return api.ReleaseJobsOf(ctx, t) })
		}),
	}
	targets.addFlags(c)
	return c
}

func (a *jobCommands) requeueCommand() *cobra.Command {
	q := api.RequeueRequest{}
	c := &cobra.Command{
		ValidArgsFunction: a.CompleteArgument([]string{"LIVE..."}),
		Use:               "requeue JOB...", Short: "Stop the running tasks of jobs, with their kill grace, and queue them again", Args: cli.AtLeast("JOB"),
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, names []string) error {
			t := holdTargets{jobs: names}
			return t.each(a, "queued again", func(name string) error { return api.RequeueJob(ctx, name, q) }, nil)
		}),
	}
	c.Long = c.Short + ".\nThey keep their place in the queue, and their end does not count as a failure."
	c.Flags().BoolVar(&q.Hold, "hold", false, "also hold the jobs: their tasks wait until release")
	c.Flags().StringVar(&q.Reason, "reason", "", "reason, shown to other users")
	return c
}

func (a *jobCommands) holdsCommand() *cobra.Command {
	return a.NewShowCommand("holds", "List the held users and roles", nil, func(ctx context.Context, api *client.Client, _ []string) (cli.CommandResult, error) {
		holds, err := api.ListHolds(ctx)
		return cli.CommandResult{Data: holds, Print: func(p *term.TablePrinter) error { return printHolds(p, holds) }}, err
	})
}

func printHolds(p *term.TablePrinter, holds []api.HoldView) error {
	return term.PrintTable(p.DropFirst("BY").WithEmptyText("No user and no role is held: mesos-gpu queue also shows held jobs."),
		holds, []term.TableColumn[api.HoldView]{
			{Name: "KIND", Value: func(h api.HoldView) string { return string(h.Kind) }},
			{Name: "NAME", Value: func(h api.HoldView) string { return h.Name }},
			{Name: "BY", Value: func(h api.HoldView) string { return term.DashIfEmpty(h.By) }},
			{Name: "SINCE", Value: func(h api.HoldView) string { return term.FormatAge(h.Since) }},
			{Name: "REASON", Value: func(h api.HoldView) string { return term.DashIfEmpty(h.Reason) }},
		})
}

// describeHold returns, for example, "by alice since 2026-11-24T02:00:00Z: wrong data".
func describeHold(h *job.Hold) string {
	text := "since " + h.Since.Format(time.RFC3339)
	if h.By != "" {
		text = "by " + h.By + " " + text
	}
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return text
}

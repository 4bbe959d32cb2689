package jobs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
)

func (a *jobCommands) killCommand() *cobra.Command {
	force, yes := false, false
	filter := &jobFilter{}
	cmd := &cobra.Command{
		ValidArgsFunction: a.CompleteArgument([]string{"LIVE..."}),
		Use:               "kill JOB...", Short: "End jobs, after their kill grace, or schedules",
		Long: "End jobs, after their kill grace, or schedules. Patterns such as 'run-*' name the jobs that have not ended and match.\n" +
			"Flags such as --me, --owner and --state end all jobs that they select, of those named if any are, after a question that has their number.",
		Example: "  mesos-gpu kill train\n  mesos-gpu kill 'run-*'\n  mesos-gpu kill --me --state waiting\n  mesos-gpu kill --owner ada --label sweep=3 --yes",
		Args: func(c *cobra.Command, got []string) error {
			if len(got) == 0 && !filter.selectsAll() {
				return nil
			}
			return cli.AtLeast("JOB, or a flag such as --me")(c, got)
		},
		RunE: a.WithClient(func(ctx context.Context, api *client.Client, names []string) error {
			if !filter.selectsAll() {
				return a.killSelected(ctx, api, filter, names, force, yes)
			}
			var errs []error
			for _, pattern := range names {
				matching, err := expandPattern(ctx, api, pattern)
				errs = append(errs, err)
				for _, one := range matching {
					errs = append(errs, a.killJob(ctx, api, one, force))
				}
			}
			return errors.Join(errs...)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "send SIGKILL immediately, also to jobs whose kill grace has started")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "end the jobs that flags select without a question")
	filter.addFilterFlags(cmd)
	return cmd
}

// killSelected ends the live jobs that the flags select, among those that match one of the patterns if there are any. It
// asks first unless yes is set.
func (a *jobCommands) killSelected(ctx context.Context, c *client.Client, filter *jobFilter, patterns []string, force, yes bool) error {
	if err := filter.validate(); err != nil {
		return err
	}
	q, err := filter.query(ctx, c)
	if err != nil {
		return err
	}
	q.State = cmp.Or(q.State, api.LiveJobs) // the scheduler may keep ended jobs for years
	if len(patterns) == 0 {
		patterns = []string{""}
	}
	var names []string
	var selected []killTarget
	for _, q.Name = range patterns {
		jobs, err := c.ListJobsMatching(ctx, q)
		if err != nil {
			return err
		}
		for i := range jobs {
			if one := targetOf(&jobs[i]); !jobs[i].Terminal && !slices.Contains(selected, one) {
				selected, names = append(selected, one), append(names, one.name)
			}
		}
	}
	if len(names) == 0 {
		return errors.New("no job that has not ended matches")
	}
	question := fmt.Sprintf("%d %s: %s", len(names), gpu.Plural(len(names), "job"), abbreviateList(names, 10))
	if !yes {
		if err := a.confirm("end "+question, "--yes"); err != nil {
			return err
		}
	}
	var errs []error
	for _, one := range selected {
		errs = append(errs, a.killJob(ctx, c, one, force))
	}
	return errors.Join(errs...)
}

// abbreviateList joins the first names, and the number of the others.
func abbreviateList(names []string, most int) string {
	if more := len(names) - most; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// confirm asks a question on standard error and returns nil if the answer from standard input is yes. The flag answers it
// beforehand.
func (a *jobCommands) confirm(question, flag string) error {
	fmt.Fprintf(a.Stderr, "mesos-gpu: %s [y/N] ", question)
	answer, err := bufio.NewReader(a.Stdin).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	if err != nil && answer == "" { // standard input has ended
		fmt.Fprintln(a.Stderr)
		return fmt.Errorf("nothing was done: answer with y, or give %s", flag)
	}
	return errors.New("nothing was done")
}

// killTarget is a job to end, with the name that messages have.
type killTarget struct{ reference, name string }

// targetOf returns a listed job. Jobs of several owners may have its name, so that the reference is its run.
func targetOf(view *api.JobView) killTarget {
	return killTarget{reference: view.RunID().String(), name: view.Spec.Name}
}

// expandPattern returns the live jobs that match a pattern, and a reference as it is: references have none of the characters
// of patterns.
func expandPattern(ctx context.Context, c *client.Client, pattern string) (targets []killTarget, err error) {
	if !strings.ContainsAny(pattern, `*?[`) {
		return []killTarget{{reference: pattern, name: pattern}}, nil
	}
	jobs, err := c.ListJobsMatching(ctx, api.JobQuery{State: api.LiveJobs, Name: pattern})
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("no job that has not ended matches %q", pattern)
	}
	for i := range jobs {
		targets = append(targets, targetOf(&jobs[i]))
	}
	return targets, err
}

func (a *jobCommands) killJob(ctx context.Context, api *client.Client, one killTarget, force bool) error {
	view, err := api.GetJob(ctx, one.reference)
	if isNotFound(err) {
		return a.endScheduleOr(ctx, api, one.name, err)
	}
	if err != nil {
		return err
	}
	if view.Terminal {
		fmt.Fprintf(a.Stdout, "job %s is %s already\n", one.name, view.State)
		return nil
	}
	end, asked := api.KillJob, "kill requested"
	if force {
		end, asked = api.ForceKillJob, "kill by force requested"
	}
	if err := end(ctx, view.RunID().String()); err != nil { // the run that was read, whatever the name means meanwhile
		return err
	}
	fmt.Fprintf(a.Stdout, "job %s: %s\n", one.name, asked)
	return nil
}

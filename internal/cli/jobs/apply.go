package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// exitDifferent is the exit status of diff if there are differences, as that of diff(1).
const exitDifferent = 1

func (a *jobCommands) applyCommand() *cobra.Command {
	var files *jobFileFlags
	dry := false
	c := &cobra.Command{
		Use: "apply FILE...", Short: "Submit jobs that are new or have changed, and update services that have changed",
		Long: "Submit the jobs of files that are new, or whose specification has changed since their last run, and print the changes.\n" +
			"A service that runs is updated: its tasks are replaced step by step. A schedule is replaced. Files and flags are those of submit.",
		RunE: func(c *cobra.Command, args []string) error {
			_, err := a.applyFiles(c.Context(), files, args, dry)
			return err
		},
	}
	files = addJobFileFlags(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "only print what would change")
	return c
}

func (a *jobCommands) diffCommand() *cobra.Command {
	var files *jobFileFlags
	c := &cobra.Command{
		Use: "diff FILE...", Short: "Show what apply would change, and exit with 1 if that is anything",
		RunE: func(c *cobra.Command, args []string) error {
			changed, err := a.applyFiles(c.Context(), files, args, true)
			if err == nil && changed {
				return &cli.ExitStatus{Code: exitDifferent}
			}
			return err
		},
	}
	files = addJobFileFlags(c)
	return c
}

// applyFiles applies the jobs of files in the order of their dependencies, and continues after one that is rejected. It
// reports whether any is new or has changed.
func (a *jobCommands) applyFiles(ctx context.Context, files *jobFileFlags, args []string, dry bool) (changed bool, err error) {
	jobs, err := files.readJobs(a.App, args)
	if err != nil {
		return false, err
	}
	api, err := a.NewClient()
	if err != nil {
		return false, err
	}
	var errs []error
	requester := sync.OnceValues(func() (string, error) {
		who, err := api.WhoAmI(ctx)
		return who.User, err
	})
	for _, j := range jobs {
		c, err := findChange(ctx, api, j, requester)
		if err == nil {
			changed = changed || c.differs()
			_, err = a.Stdout.Write(c.lines)
			if err == nil {
				err = a.carryOutChange(ctx, api, &c, dry)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", j.Name, err))
		}
	}
	return changed, errors.Join(errs...)
}

// jobChange is a change that makes a job, service or schedule equal to a file's.
type jobChange struct {
	*job.Spec
	// existing is the present specification of that name, or nil.
	existing *job.Spec
	// live is set if existing is a service that has not ended.
	live bool
	// lines are the differences as a unified diff, empty if there are none.
	lines []byte
}

func (c *jobChange) differs() bool { return c.existing == nil || len(c.lines) > 0 }

// kind returns what the change is about, for messages.
func (c *jobChange) kind() string {
	switch {
	case c.Schedule != nil:
		return "schedule"
	case c.Service != nil:
		return "service"
	}
	return "job"
}

// isMissing reports whether the requester has no job or schedule of a name, by the answer to a request for it: a name that the
// requester has not used may mean that of another user. requester returns the name of the requester.
func isMissing(found *job.Spec, err error, requester func() (string, error)) (bool, error) {
	switch {
	case isNotFound(err), isAmbiguous(err):
		return true, nil
	case err != nil, found.Owner == "":
		return false, err
	}
	user, err := requester()
	return user != found.Owner, err
}

// findChange compares a job of a file with the requester's one of the scheduler.
func findChange(ctx context.Context, api *client.Client, j jobFromFile, requester func() (string, error)) (c jobChange, err error) {
	spec := *j.Spec
	c.Spec = &spec
	name := j.Name
	if j.Schedule != nil {
		schedule, err := api.GetSchedule(ctx, j.Name)
		if missing, err := isMissing(&schedule.Spec, err, requester); missing || err != nil {
			return c, err
		}
		existing := (&job.Job{Spec: &schedule.Spec}).SubmittableSpec()
		c.existing = &existing
	} else {
		view, err := api.GetJob(ctx, j.Name)
		if missing, err := isMissing(view.Spec, err, requester); missing || err != nil {
			return c, err
		}
		existing := view.SubmittableSpec()
		if s := spec.Service; s != nil && s.Autoscaling.IsSet() && !view.Terminal {
			spec.Tasks = min(max(existing.Tasks, s.Autoscaling.Min), s.Autoscaling.Max) // the load determines the number
		}
		c.existing, c.live, name = &existing, view.Spec.Service != nil && !view.Terminal, view.RunID().String()
	}
	spec.Role = cmp.Or(spec.Role, c.existing.Role) // the default role, which the scheduler has filled in
	wanted := spec
	if wanted.Workdir, err = digestWorkdir(ctx, spec.Workdir); err != nil {
		return c, err
	}
	before, err := cli.EncodeJobFile(c.existing)
	if err != nil {
		return c, err
	}
	after, err := cli.EncodeJobFile(&wanted)
	if err != nil {
		return c, err
	}
	c.lines = diff.Diff(name, before, j.file, after)
	return c, nil
}

// carryOutChange makes the change, unless dry is set, and prints what it does.
func (a *jobCommands) carryOutChange(ctx context.Context, api *client.Client, c *jobChange, dry bool) error {
	done, would := "submitted", "would be submitted"
	if c.live || c.Schedule != nil && c.existing != nil {
		done, would = "updated", "would be updated"
	}
	switch {
	case !c.differs():
		done = "unchanged"
	case dry:
		done = would
	case c.live && c.Service != nil:
		view, err := SubmitWithWorkdir(ctx, a.App, c.Spec, api.UploadWorkdir, api.UpdateJob)
		if err != nil {
			return err
		}
		done = fmt.Sprintf("updated to version %d", view.Version)
	case c.Schedule != nil && c.existing != nil:
		if err := a.replaceSchedule(ctx, api, c); err != nil {
			return err
		}
	default:
		submitted, err := a.submitSpec(ctx, api, c.Spec)
		if err != nil {
			return err
		}
		a.printWarnings(c.Name, submitted.warnings)
	}
	_, err := fmt.Fprintf(a.Stdout, "%s %s %s\n", c.kind(), c.Name, done)
	return err
}

// replaceSchedule replaces a schedule. If the new one is rejected, it restores the old one.
func (a *jobCommands) replaceSchedule(ctx context.Context, api *client.Client, c *jobChange) error {
	if err := api.EndSchedule(ctx, c.Name); err != nil {
		return err
	}
	_, err := a.submitSpec(ctx, api, c.Spec)
	if err == nil {
		return nil
	}
	if _, again := api.AddSchedule(ctx, *c.existing); again != nil {
		return fmt.Errorf("%w; and the schedule before it could not be restored: %w", err, again)
	}
	return err
}

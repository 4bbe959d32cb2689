package leader

import (
	"context"
	"fmt"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// ValidateJob checks a job or a schedule as its submission would, and records nothing. It does not count as a submission
// for the limit of submissions. A later submission may still fail, because the cluster changes.
func (c *JobCommands) ValidateJob(ctx context.Context, by *access.Grant, spec job.Spec) (checked api.ValidatedJob, err error) {
	sub := &submission{origin: byUser, spec: &spec, by: by, isDryRun: true}
	if spec.Schedule != nil {
		sub.origin = asSchedule
	}
	if err := c.leader.checkBeforeLoop(ctx, sub); err != nil {
		return checked, err
	}
	var warnings []string
	err = c.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		if err := c.leader.checkInLoop(st, sub); err != nil {
			return err
		}
		warnings = warnOfSubmission(st, &spec)
		return nil
	})
	if err != nil {
		return checked, err
	}
	return api.ValidatedJob{Spec: spec, Warnings: warnings}, nil
}

// ValidateUpdate checks a specification of a service as UpdateJob would, and records nothing.
func (c *JobCommands) ValidateUpdate(ctx context.Context, change request.Change, name string, spec job.Spec) (checked api.ValidatedJob, err error) {
	if err := c.checkUpdateFiles(ctx, change.By, name, &spec); err != nil {
		return checked, err
	}
	var warnings []string
	err = c.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		if err := c.checkUpdate(change, st, name, &spec); err != nil {
			return err
		}
		warnings = warnOfInfeasible(st, &spec)
		return nil
	})
	if err != nil {
		return checked, err
	}
	return api.ValidatedJob{Spec: spec, Warnings: warnings}, nil
}

// warnOfSubmission returns what the submitter of a job should know, though it is no error.
func warnOfSubmission(st *sched.State, spec *job.Spec) []string {
	return append(warnOfInfeasible(st, spec), st.BudgetWarnings(spec)...)
}

// warnOfInfeasible returns a warning if the job cannot start on the present agents even if nothing else runs. Without
// agents it returns none: the master may not have listed them yet.
func warnOfInfeasible(st *sched.State, spec *job.Spec) []string {
	cause, infeasible := st.ExplainInfeasible(spec)
	if !infeasible {
		return nil
	}
	return []string{fmt.Sprintf("the job cannot start with the present agents: it needs %s; %s", cause.Needs, cause.Available)}
}

package leader

import (
	"cmp"
	"context"
	"fmt"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/cron"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// ValidateJob checks a job or a schedule as its submission would, and records nothing. It does not count as a submission
// for the limit of submissions. A later submission may still fail, because the cluster changes.
func (c *JobCommands) ValidateJob(ctx context.Context, by *access.Grant, spec job.Spec) (api.ValidatedJob, error) {
	return c.validate(ctx, spec, func(st *sched.State, spec *job.Spec) error {
		spec.Role = cmp.Or(spec.Role, st.DefaultRole())
		if spec.Schedule == nil {
			return c.checkSubmission(by, st, spec)
		}
		if err := request.CheckRoleAccess(by, access.Submit, spec.Role); err != nil {
			return err
		}
		if err := assignUser(by, spec); err != nil {
			return err
		}
		e := cron.NewEntry(*spec, c.leader.loop.clock())
		put, err := scheduleDocument(e)
		if err != nil {
			return err
		}
		return c.leader.Schedules.checkSchedule(st, e, put)
	})
}

// ValidateUpdate checks a specification of a service as UpdateJob would, and records nothing.
func (c *JobCommands) ValidateUpdate(ctx context.Context, change request.Change, spec job.Spec) (api.ValidatedJob, error) {
	return c.validate(ctx, spec, func(st *sched.State, spec *job.Spec) error { return c.checkUpdate(change, st, spec) })
}

// validate makes the checks of all specifications and then check, in the loop.
func (c *JobCommands) validate(ctx context.Context, spec job.Spec, check func(*sched.State, *job.Spec) error) (checked api.ValidatedJob, err error) {
	if err := c.checkTypes(ctx, spec.Request.Types); err != nil {
		return checked, err
	}
	if err := c.checkFiles(&spec); err != nil {
		return checked, err
	}
	if err := c.leader.runInLoop(ctx, nil, func(st *sched.State) error { return check(st, &spec) }); err != nil {
		return checked, err
	}
	return api.ValidatedJob{Spec: spec, Warnings: c.warnOfLargeTasks(&spec)}, nil
}

// warnOfLargeTasks returns a warning if no agent has as many GPUs of the requested types as a
// task needs. Without agents it returns none: the master may not have listed them yet.
func (c *JobCommands) warnOfLargeTasks(spec *job.Spec) []string {
	largest, known := c.leader.agentSizes.LargestAgent(spec.Request.Types.Match)
	if !known || largest >= spec.Request.GPUs {
		return nil
	}
	return []string{fmt.Sprintf("the job will wait until an agent with more GPUs joins: a task needs %s, and the largest agent with such GPUs has %d", spec.Request, largest)}
}

// checkSubmission returns why the user may not submit the job now. It runs in the loop.
func (c *JobCommands) checkSubmission(by *access.Grant, st *sched.State, spec *job.Spec) error {
	if err := c.checkSubmitPermission(by, spec); err != nil {
		return err
	}
	if err := assignUser(by, spec); err != nil {
		return err
	}
	if err := st.AdmitBy(spec, func(role string) bool { return by.HasPermission(access.View, role) }); err != nil {
		return c.admissionProblem(err)
	}
	return nil
}

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
	if err := c.leader.runInLoop(ctx, nil, func(st *sched.State) error { return c.leader.checkInLoop(st, sub) }); err != nil {
		return checked, err
	}
	return api.ValidatedJob{Spec: spec, Warnings: c.warnOfLargeTasks(&spec)}, nil
}

// ValidateUpdate checks a specification of a service as UpdateJob would, and records nothing.
func (c *JobCommands) ValidateUpdate(ctx context.Context, change request.Change, spec job.Spec) (checked api.ValidatedJob, err error) {
	if err := c.checkUpdateFiles(ctx, &spec); err != nil {
		return checked, err
	}
	if err := c.leader.runInLoop(ctx, nil, func(st *sched.State) error { return c.checkUpdate(change, st, &spec) }); err != nil {
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
	return []string{
		fmt.Sprintf("the job will wait until an agent with more GPUs joins: a task needs %s, and the largest agent with such GPUs has %d", spec.Request, largest),
	}
}

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
func (b *Leader) ValidateJob(ctx context.Context, by *access.Grant, spec job.Spec) (api.ValidatedJob, error) {
	return b.validate(ctx, spec, func(st *sched.State, spec *job.Spec) error {
		spec.Role = cmp.Or(spec.Role, st.DefaultRole())
		if spec.Schedule == nil {
			return b.checkSubmission(by, st, spec)
		}
		if err := request.CheckRoleAccess(by, access.Submit, spec.Role); err != nil {
			return err
		}
		if err := assignUser(by, spec); err != nil {
			return err
		}
		e := cron.NewEntry(*spec, b.loop.clock())
		put, err := scheduleDocument(e)
		if err != nil {
			return err
		}
		return b.checkSchedule(st, e, put)
	})
}

// ValidateUpdate checks a specification of a service as UpdateJob would, and records nothing.
func (b *Leader) ValidateUpdate(ctx context.Context, c request.Change, spec job.Spec) (api.ValidatedJob, error) {
	return b.validate(ctx, spec, func(st *sched.State, spec *job.Spec) error { return b.checkUpdate(c, st, spec) })
}

// validate makes the checks of all specifications and then check, in the loop.
func (b *Leader) validate(ctx context.Context, spec job.Spec, check func(*sched.State, *job.Spec) error) (checked api.ValidatedJob, err error) {
	if err := b.checkTypes(ctx, spec.Request.Types); err != nil {
		return checked, err
	}
	if err := b.checkFiles(&spec); err != nil {
		return checked, err
	}
	if err := b.runInLoop(ctx, nil, func(st *sched.State) error { return check(st, &spec) }); err != nil {
		return checked, err
	}
	return api.ValidatedJob{Spec: spec, Warnings: b.warnOfLargeTasks(&spec)}, nil
}

// warnOfLargeTasks returns a warning if no agent has as many GPUs of the requested types as a
// task needs. Without agents it returns none: the master may not have listed them yet.
func (b *Leader) warnOfLargeTasks(spec *job.Spec) []string {
	largest, known := b.agentSizes.LargestAgent(spec.Request.Types.Match)
	if !known || largest >= spec.Request.GPUs {
		return nil
	}
	return []string{fmt.Sprintf("the job will wait until an agent with more GPUs joins: a task needs %s, and the largest agent with such GPUs has %d", spec.Request, largest)}
}

// checkSubmission returns why the user may not submit the job now. It runs in the loop.
func (b *Leader) checkSubmission(by *access.Grant, st *sched.State, spec *job.Spec) error {
	if err := b.checkSubmitPermission(by, spec); err != nil {
		return err
	}
	if err := assignUser(by, spec); err != nil {
		return err
	}
	if err := st.AdmitBy(spec, func(role string) bool { return by.HasPermission(access.View, role) }); err != nil {
		return b.admissionProblem(err)
	}
	return nil
}

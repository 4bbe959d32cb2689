package leader

import (
	"context"
	"net/http"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// HoldCommands hold, release and requeue jobs.
type HoldCommands struct{ leader *Leader }

// HoldJob keeps the waiting tasks of a job from being placed. Placed tasks continue.
func (c *HoldCommands) HoldJob(ctx context.Context, change request.Change, name, reason string) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := checkHoldable(change, st, name); err != nil {
			return err
		}
		apply(sched.HoldJob{Job: name, By: change.By.UserName(), Reason: reason})
		return nil
	})
}

// ReleaseJob ends the hold of a job. It is no error if the job is not held.
func (c *HoldCommands) ReleaseJob(ctx context.Context, change request.Change, name string) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := checkHoldable(change, st, name); err != nil {
			return err
		}
		apply(sched.ReleaseJob{Job: name, By: change.By.UserName()})
		return nil
	})
}

// RequeueJob stops the placed tasks of a job, which are queued again.
func (c *HoldCommands) RequeueJob(ctx context.Context, change request.Change, name string, q api.RequeueRequest) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		check := checkJobMatches
		if q.Hold {
			check = checkHoldable
		}
		if err := check(change, st, name); err != nil {
			return err
		}
		if err := st.AdmitHold(name); err != nil {
			return api.NewProblemf(http.StatusConflict, "%v", err)
		}
		apply(sched.RequeueJob{Job: name, By: change.By.UserName(), Reason: q.Reason, Hold: q.Hold})
		return nil
	})
}

// checkHoldable returns an error if the job cannot be held or released, or if the requester may not: the owner of a job
// may not change the hold of another user.
func checkHoldable(change request.Change, st *sched.State, name string) error {
	if err := checkJobMatches(change, st, name); err != nil {
		return err
	}
	if err := st.AdmitHold(name); err != nil {
		return api.NewProblemf(http.StatusConflict, "%v", err)
	}
	j, _ := st.Job(name)
	return checkHolder(change.By, j.Hold, j.Spec.Role)
}

// checkHolder returns an error if a user may not change a hold, which may be nil. It takes the permission operate to
// change that of another user.
func checkHolder(by *access.Grant, h *job.Hold, role string) error {
	if h == nil || by.UserName() == h.By {
		return nil
	}
	return request.CheckRoleAccess(by, access.Operate, role)
}

// HoldJobsOf keeps the waiting tasks of all jobs of a user or a role from being placed.
func (c *HoldCommands) HoldJobsOf(ctx context.Context, by *access.Grant, target job.HoldTarget, q api.HoldRequest) error {
	return c.changeHold(ctx, by, target, sched.HoldJobsOf{Target: target, By: by.UserName(), Reason: q.Reason, Drain: q.Drain})
}

// ReleaseJobsOf ends the hold of a user or a role. Without a hold it does nothing.
func (c *HoldCommands) ReleaseJobsOf(ctx context.Context, by *access.Grant, target job.HoldTarget) error {
	return c.changeHold(ctx, by, target, sched.ReleaseJobsOf{Target: target})
}

// changeHold applies a change of the hold of a user or a role. The hold of a user affects jobs in every role, so that
// changing another user's takes the permission operate in all roles.
func (c *HoldCommands) changeHold(ctx context.Context, by *access.Grant, target job.HoldTarget, e sched.Event) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitHoldTarget(target); err != nil {
			return api.NewProblemf(http.StatusNotFound, "%v", err)
		}
		if h, held := st.Holds()[target]; held {
			role := target.Name
			if target.Kind == job.HeldUser {
				role = admission.AllRoles
			}
			if err := checkHolder(by, &h, role); err != nil {
				return err
			}
		}
		apply(e)
		return nil
	})
}

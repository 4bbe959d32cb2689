package leader

import (
	"cmp"
	"context"
	"net/http"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
	"mesos-gpu/job/jobfile"
)

// EditJob changes the specification of a run, NAME@RUN, and returns the job once that is recorded. A job that already is as
// requested matches every If-Match, so that a client can repeat a request whose answer was lost.
func (c *JobCommands) EditJob(ctx context.Context, change request.Change, name string, edit func(*job.Spec) error) (view api.JobView, err error) {
	unknownTypes := c.checkEditedTypes(ctx, name, edit) // it may wait for the master, so it runs before the loop
	err = c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		old, ok := st.Job(name)
		if !ok {
			return api.UnknownJob(name)
		}
		spec := *old.Spec
		if err := edit(&spec); err != nil {
			return api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
		}
		spec.SetDefaults()
		spec.Role = cmp.Or(spec.Role, st.DefaultRole())
		if st.HasSpec(name, &spec) {
			return nil
		}
		if err := checkJobMatches(change, st, name); err != nil {
			return err
		}
		if err := cmp.Or(unknownTypes, checkEdited(change.By, old, spec), admitEdit(st, name, &spec), c.leader.checkSpace()); err != nil {
			return err
		}
		apply(sched.EditJob{Job: name, Spec: spec, By: change.By.UserName(), Keys: jobfile.DescribeChange(old.Spec, &spec)})
		return nil
	}, func(*sched.State) error {
		view, err = c.leader.Model.JobView(name)
		return err
	})
	return view, err
}

// checkEditedTypes returns an error for GPU types of the edited job that no agent has. It applies the edit to a copy:
// EditJob applies it again in the loop, to the job as it is then.
func (c *JobCommands) checkEditedTypes(ctx context.Context, name string, edit func(*job.Spec) error) error {
	old, ok := c.leader.Model.CopyJob(name)
	if !ok {
		return nil // reported later
	}
	spec := *old.Spec
	if edit(&spec) != nil {
		return nil
	}
	return c.checkTypes(ctx, spec.Request.Types)
}

// checkEdited returns an error if the edited specification is not valid, or if the requester may not move the job.
func checkEdited(by *access.Grant, old *job.Job, spec job.Spec) error {
	if old.Spec.CheckReserved() != nil {
		return api.NewProblemf(http.StatusConflict, "job %q runs an app of Marathon: change the app", spec.Name)
	}
	edited := job.Job{Spec: &spec, Tasks: old.Tasks}
	submittable := edited.SubmittableSpec()
	if err := cmp.Or(submittable.Validate(), spec.CheckReserved()); err != nil {
		return api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
	}
	if spec.Role == old.Spec.Role {
		return nil
	}
	return request.CheckRoleAccess(by, access.Submit, spec.Role)
}

// admitEdit returns the Problem of an edit that the State does not admit.
func admitEdit(st *sched.State, name string, spec *job.Spec) error {
	if err := st.AdmitEdit(name, spec); err != nil {
		return refusal(err, "")
	}
	return nil
}

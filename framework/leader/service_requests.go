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

// UpdateJob gives a service, the run NAME@RUN, another specification, and returns the service once that is recorded. The
// rollout of the specification to its tasks continues afterwards. The service keeps its role if spec names none.
func (c *JobCommands) UpdateJob(ctx context.Context, change request.Change, name string, spec job.Spec) (view api.JobView, err error) {
	if err := c.checkUpdateFiles(ctx, change.By, name, &spec); err != nil {
		return view, err
	}
	err = c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := c.checkUpdate(change, st, name, &spec); err != nil {
			return err
		}
		old, _ := st.Job(name)
		before := old.SubmittableSpec() // the present one names runs that dependencies have found
		apply(sched.UpdateService{Job: name, Spec: spec, By: change.By.UserName(), Keys: jobfile.DescribeChange(&before, &spec)})
		return nil
	}, func(*sched.State) error {
		view, err = c.leader.Model.JobView(name)
		return err
	})
	return view, err
}

// checkUpdateFiles makes the checks of a submission that may wait for the master or the disk.
func (c *JobCommands) checkUpdateFiles(ctx context.Context, by *access.Grant, name string, spec *job.Spec) error {
	if old, ok := c.leader.Model.CopyJob(name); ok {
		spec.Owner = old.Spec.Owner
	}
	return c.leader.checkBeforeLoop(ctx, &submission{origin: byUser, spec: spec, by: by})
}

// checkUpdate returns why a service may not get the specification, and completes its role.
func (c *JobCommands) checkUpdate(change request.Change, st *sched.State, name string, spec *job.Spec) error {
	if err := checkJobMatches(change, st, name); err != nil {
		return err
	}
	old, _ := st.Job(name)
	if old.Spec.CheckReserved() != nil {
		return api.NewProblemf(http.StatusConflict, "job %q runs an app of Marathon: change the app", spec.Name)
	}
	spec.Role, spec.Owner = cmp.Or(spec.Role, old.Spec.Role), old.Spec.Owner
	if err := assignUser(change.By, spec); err != nil {
		return err
	}
	if err := st.AdmitUpdate(name, spec); err != nil {
		return refusal(err, "")
	}
	return c.leader.checkSpace()
}

// ScaleJob sets the number of a service's tasks. It does not wait until they run or have ended.
func (c *JobCommands) ScaleJob(ctx context.Context, change request.Change, name string, tasks int) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := checkJobMatches(change, st, name); err != nil {
			return err
		}
		if err := st.AdmitScale(name, tasks); err != nil {
			return refusal(err, "")
		}
		apply(sched.ScaleService{Job: name, Tasks: tasks, By: change.By.UserName()})
		return nil
	})
}

// StopTask kills a task. A service starts a replacement unless retire is true. A task that has ended is a conflict, so
// that a client notices that its list of tasks is old.
func (c *JobCommands) StopTask(ctx context.Context, by *access.Grant, task string, retire bool) error {
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		t, ok := st.Task(task)
		switch {
		case !ok:
			return api.UnknownTask(task)
		case !t.State.IsLive():
			return api.NewProblemf(http.StatusConflict, "task %q is %s already", task, t.State)
		}
		apply(sched.StopTasks{TaskIDs: []string{task}, Retire: retire, By: by.UserName()})
		return nil
	})
}

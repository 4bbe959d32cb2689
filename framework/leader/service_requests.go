package leader

import (
	"context"
	"net/http"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/sched"
)

// ScaleJob sets the number of a service's tasks.
func (b *Leader) ScaleJob(ctx context.Context, name string, tasks int) error {
	return b.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := checkJobMatches(ctx, st, name); err != nil {
			return err
		}
		if err := st.AdmitScale(name, tasks); err != nil {
			return api.NewProblemf(admissionStatus(err), "%v", err)
		}
		apply(sched.ScaleService{Job: name, Tasks: tasks})
		return nil
	})
}

// StopTask kills a task. A service starts a replacement unless retire is true.
func (b *Leader) StopTask(ctx context.Context, task string, retire bool) error {
	return b.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		t, ok := st.Task(task)
		switch {
		case !ok:
			return api.UnknownTask(task)
		case !t.State.IsLive():
			return api.NewProblemf(http.StatusConflict, "task %q is %s already", task, t.State)
		}
		apply(sched.StopTasks{TaskIDs: []string{task}, Retire: retire, By: apiserver.GrantOf(ctx).UserName()})
		return nil
	})
}

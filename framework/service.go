package framework

import (
	"context"
	"net/http"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
)

// Scale asks for so many tasks of a service.
func (b *leader) Scale(ctx context.Context, name string, tasks int) error {
	return b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := matchJob(ctx, st, name); err != nil {
			return err
		}
		if err := st.AdmitScale(name, tasks); err != nil {
			return api.Problemf(refusal(err), "%v", err)
		}
		apply(sched.Scale{Job: name, Tasks: tasks})
		return nil
	})
}

// Stop asks for a task's end.
func (b *leader) Stop(ctx context.Context, task string, retire bool) error {
	return b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		t, ok := st.Task(task)
		switch {
		case !ok:
			return api.UnknownTask(task)
		case !t.State.Live():
			return api.Problemf(http.StatusConflict, "task %q is %s already", task, t.State)
		}
		apply(sched.Stop{TaskIDs: []string{task}, Retire: retire})
		return nil
	})
}

func (b *standby) Scale(ctx context.Context, _ string, _ int) error { return b.Elsewhere(ctx) }
func (b *standby) Stop(ctx context.Context, _ string, _ bool) error { return b.Elsewhere(ctx) }
func (n nobody) Scale(context.Context, string, int) error           { return n.problem() }
func (n nobody) Stop(context.Context, string, bool) error           { return n.problem() }

package framework

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// backend answers the API out of the loop's State and the master.
type backend struct {
	loop   *loop
	client *master.Client
	ended  <-chan struct{} // closed when the scheduler ends
}

// ask runs step and then read in the loop, read once all is recorded, and
// waits for it.
func (b *backend) ask(ctx context.Context, step func(apply func(sched.Event)), read func(*sched.State) error) error {
	answered := make(chan error, 1)
	r := request{step: step, done: func(st *sched.State, err error) {
		if err == nil {
			err = read(st)
		}
		answered <- err
	}}
	select {
	case b.loop.requests <- r:
		return <-answered // the loop answers all that it takes
	case <-b.ended:
		return api.Problemf(http.StatusServiceUnavailable, "the scheduler is stopping")
	case <-ctx.Done(): // which ends with the scheduler too
		return api.Problemf(http.StatusServiceUnavailable, "the request ended before the scheduler took it: %v", context.Cause(ctx))
	}
}

func (b *backend) Submit(ctx context.Context, spec job.Spec) (view api.JobView, err error) {
	if err := b.checkTypes(ctx, spec.Request.Types); err != nil {
		return view, err
	}
	var refused error
	step := func(apply func(sched.Event)) {
		if refused = b.loop.st.Admit(&spec); refused == nil {
			apply(sched.Submit{Spec: spec})
		}
	}
	err = b.ask(ctx, step, func(st *sched.State) error {
		if refused != nil {
			return refused
		}
		view, err = viewOf(st, spec.Name)
		return err
	})
	if live := (*sched.LiveError)(nil); errors.As(err, &live) {
		return view, api.Problemf(http.StatusConflict, "%v", live)
	}
	return view, err
}

// checkTypes asks the master only where a name is not known anyhow.
func (b *backend) checkTypes(ctx context.Context, t gpu.Types) error {
	strange := strangeTypes(t)
	if len(strange) == 0 {
		return nil
	}
	agents, err := b.client.Agents(ctx)
	if err != nil {
		return api.Problemf(http.StatusServiceUnavailable, "gpu_type %q is no type that NVIDIA makes, and the master does not say whether an agent has it: %v", strange[0], err)
	}
	if err := refuseTypes(strange, agents); err != nil {
		return api.Problemf(http.StatusUnprocessableEntity, "%v", err)
	}
	return nil
}

func viewOf(st *sched.State, name string) (api.JobView, error) {
	j, ok := st.Job(name)
	if !ok {
		return api.JobView{}, unknownJob(name)
	}
	return api.ViewOf(j, waits(st, st.Reasons(name), name)), nil
}

func unknownJob(name string) error {
	return api.Problemf(http.StatusNotFound, "there is no job %q", name)
}

// waits is why a job waits, for people.
func waits(st *sched.State, reasons map[string]sched.Reason, name string) string {
	r, ok := reasons[name]
	switch {
	case !ok:
		return ""
	case !st.Connected():
		return fmt.Sprintf("%d of %d %s: there is no connection to a Mesos master", r.Missing, r.Tasks, gpu.Plural(r.Tasks, "task"))
	default:
		return r.Text()
	}
}

func (b *backend) Jobs(ctx context.Context) (views []api.JobView, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) error {
		reasons := st.Reasons()
		for _, j := range st.Jobs() {
			views = append(views, api.ViewOf(j, waits(st, reasons, j.Spec.Name)))
		}
		return nil
	})
	return views, err
}

func (b *backend) Job(ctx context.Context, name string) (view api.JobView, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) (err error) {
		view, err = viewOf(st, name)
		return err
	})
	return view, err
}

func (b *backend) Kill(ctx context.Context, name string) error {
	known := false
	return b.ask(ctx, func(apply func(sched.Event)) {
		if _, known = b.loop.st.Job(name); known {
			apply(sched.Kill{Job: name})
		}
	}, func(*sched.State) error {
		if !known {
			return unknownJob(name)
		}
		return nil
	})
}

func (b *backend) Task(ctx context.Context, id string) (t job.Task, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) error {
		found := false
		if t, found = st.Task(id); !found {
			return api.Problemf(http.StatusNotFound, "there is no task %q", id)
		}
		return nil
	})
	return t, err
}

func (b *backend) ReadLog(ctx context.Context, t job.Task, stream string, offset, length uint64) ([]byte, error) {
	path := master.SandboxFile(b.client.FrameworkID(), t.ID, stream)
	data, _, err := b.client.ReadFile(ctx, t.AgentURL, path, offset, length)
	if errors.Is(err, master.ErrNoFile) {
		return nil, fmt.Errorf("%w: %w", api.ErrNoLog, err)
	}
	return data, err
}

func (b *backend) Events(ctx context.Context, name string) (now []api.Event, changes <-chan api.Event, err error) {
	var l *listener
	err = b.ask(ctx, nil, func(st *sched.State) error {
		jobs := st.Jobs()
		if name != "" {
			j, ok := st.Job(name)
			if !ok {
				return unknownJob(name)
			}
			jobs = []*job.Job{j}
		}
		for _, j := range jobs {
			now = append(now, eventsOf(j)...)
		}
		l = b.loop.hub.join(name)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	context.AfterFunc(ctx, func() { b.loop.hub.leave(l) })
	return now, l.ch, nil
}

func (b *backend) Health(ctx context.Context) (h api.Health, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) error {
		h = api.Health{Connected: st.Connected(), FrameworkID: st.FrameworkID()}
		return nil
	})
	return h, err
}

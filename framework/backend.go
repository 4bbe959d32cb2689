package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/zkconn"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// leader answers the API of the scheduler that leads: what is recorded out of
// its view, the rest out of the loop's State and the master.
type leader struct {
	reader
	loop  *loop
	url   string
	ended <-chan struct{} // closed when it leads no more
	// extension is nil if there is none that counts something.
	extension Measured
	fields    fields
	// may says whether the owner of a schedule may still submit in its role;
	// nil: everybody may.
	may    func(owner, role string) bool
	agenda agenda
	// rescheduled has one when there is another schedule.
	rescheduled chan struct{}
}

// ask runs step and then read in the loop, read once all is recorded, and
// waits for it.
func (b *leader) ask(ctx context.Context, step func(apply func(sched.Event)), read func(*sched.State) error) error {
	answered := make(chan error, 1)
	r := request{step: step, done: func(st *sched.State, err error) {
		if err == nil {
			err = read(st)
		}
		answered <- err
	}}
	select {
	case b.loop.requests <- r:
		return notRecorded(<-answered) // the loop answers all that it takes
	case <-b.ended:
		return api.NotYet("the scheduler is stopping")
	case <-ctx.Done(): // which ends with the scheduler too
		return api.NotYet("the request ended before the scheduler took it: %v", context.Cause(ctx))
	}
}

// notRecorded says what is known of a request whose record failed.
func notRecorded(err error) error {
	switch {
	case errors.Is(err, journal.ErrUnknown):
		return api.Problemf(http.StatusServiceUnavailable, "%w: see whether it was done before you ask again", err)
	case errors.Is(err, journal.ErrFenced), errors.Is(err, zkconn.ErrLost), errors.Is(err, context.Canceled):
		return api.NotYet("%w", err)
	}
	return err
}

func (b *leader) Submit(ctx context.Context, spec job.Spec) (view api.JobView, err error) {
	if err := b.checkTypes(ctx, spec.Request.Types); err != nil {
		return view, err
	}
	var refused error
	step := func(apply func(sched.Event)) {
		spec.Role = cmp.Or(spec.Role, b.loop.st.DefaultRole())
		api.NoteOf(ctx).Role = spec.Role
		if refused = b.maySubmit(ctx, &spec); refused != nil {
			return
		}
		if refused = b.loop.st.AdmitBy(&spec, func(role string) bool { return api.GrantOf(ctx).May(access.View, role) }); refused == nil {
			apply(sched.Submit{Spec: spec})
		}
	}
	err = b.ask(ctx, step, func(st *sched.State) error {
		if refused != nil {
			return nil
		}
		if view, err = b.view.Job(spec.Name); err != nil {
			return err
		}
		view.Waits = b.waits(st.Reasons(spec.Name), spec.Name)
		return nil
	})
	if p := (*api.Problem)(nil); errors.As(refused, &p) {
		return view, p
	}
	if refused != nil {
		return view, api.Problemf(refusal(refused), "%v", refused)
	}
	return view, err
}

// maySubmit says what is in the way of who asks. A job takes the place of one
// of its name that has ended, and with it what is known of that.
func (b *leader) maySubmit(ctx context.Context, spec *job.Spec) error {
	g := api.GrantOf(ctx)
	if err := api.MayIn(g, access.Submit, spec.Role); err != nil {
		return err
	}
	if old, ok := b.loop.st.Job(spec.Name); ok && !g.MayChange(old.Spec.Role, old.Spec.Owner) {
		return api.Problemf(http.StatusConflict, "there is a job %q that is not yours: choose another name", spec.Name)
	}
	return nil
}

// refusal is the HTTP status for a job that is not admitted.
func refusal(err error) int {
	switch {
	case errors.As(err, new(*sched.LiveError)):
		return http.StatusConflict
	case errors.As(err, new(*sched.ForbiddenError)):
		return http.StatusForbidden
	case errors.As(err, new(*sched.FullError)):
		return http.StatusServiceUnavailable
	default:
		return http.StatusUnprocessableEntity
	}
}

// checkTypes asks the master only where a name is not known anyhow.
func (b *leader) checkTypes(ctx context.Context, t gpu.Types) error {
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

// waits is why a job waits, for people.
func (b *leader) waits(reasons map[string]sched.Reason, name string) string {
	r, ok := reasons[name]
	switch {
	case !ok:
		return ""
	case !b.loop.connected.Load():
		return fmt.Sprintf("%d of %d %s: there is no connection to a Mesos master", r.Missing, r.Tasks, gpu.Plural(r.Tasks, "task"))
	default:
		return r.Text()
	}
}

// explain adds to jobs why they wait. It asks the loop once, if any does.
func (b *leader) explain(ctx context.Context, views []api.JobView) error {
	var waiting []string
	for i := range views {
		if waits(&views[i]) {
			waiting = append(waiting, views[i].Spec.Name)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	var reasons map[string]sched.Reason
	err := b.ask(ctx, nil, func(st *sched.State) error {
		reasons = st.Reasons(waiting...)
		return nil
	})
	for i := range views {
		views[i].Waits = b.waits(reasons, views[i].Spec.Name)
	}
	return err
}

func (b *leader) Jobs(ctx context.Context, q api.JobQuery) (api.JobList, error) {
	list, err := b.view.list(q)
	if err != nil {
		return list, err
	}
	return list, b.explain(ctx, list.Jobs)
}

func (b *leader) Job(ctx context.Context, name string) (api.JobView, error) {
	view, err := b.view.Job(name)
	if err != nil {
		return view, err
	}
	views := []api.JobView{view}
	err = b.explain(ctx, views)
	return views[0], err
}

func (b *leader) Kill(ctx context.Context, name string) error {
	known := false
	return b.ask(ctx, func(apply func(sched.Event)) {
		if _, known = b.loop.st.Job(name); known { // of this batch too, which no view has
			apply(sched.Kill{Job: name})
		}
	}, func(*sched.State) error {
		if !known {
			return unknownJob(name)
		}
		return nil
	})
}

func (b *leader) Health(context.Context) (api.Health, error) {
	return api.Health{Connected: b.loop.connected.Load(), FrameworkID: b.view.framework(), Role: api.Leader, Leading: b.url}, nil
}

// gaugesWait is how long an extension may take to begin counting.
const gaugesWait = 2 * time.Second

// Metrics counts what is recorded. What the extension does not tell now is
// left out.
func (b *leader) Metrics(ctx context.Context) (metrics.Snapshot, error) {
	s := b.view.metrics()
	s.Leads, s.Connected = true, b.loop.connected.Load()
	if b.extension == nil {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, gaugesWait)
	defer cancel()
	var gauges []metrics.Gauge
	err := b.extension.Gauges(ctx, func(name, help string, labels map[string]string, value float64) {
		gauges = append(gauges, metrics.Gauge{Name: name, Help: help, Labels: labels, Value: value})
	})
	if err != nil {
		b.loop.log.WithError(err).Warn("the extension's metrics are left out")
		return s, nil
	}
	s.Gauges = gauges
	return s, nil
}

// AsOf is zero: what is recorded is what the leader knows.
func (b *leader) AsOf() time.Time { return time.Time{} }

func waits(v *api.JobView) bool {
	return slices.ContainsFunc(v.Tasks, func(t job.Task) bool { return t.State == job.Waiting })
}

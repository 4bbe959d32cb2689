package framework

import (
	"cmp"
	"context"
	"errors"
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
	gpus      gpus
	// may says whether the owner of a schedule may still submit in its role;
	// nil: everybody may.
	may    func(owner, role string) bool
	agenda agenda
	// rescheduled has one when there is another schedule.
	rescheduled chan struct{}
	usages      usages
	lineups     lineups
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
	strange := b.checkTypes(ctx, spec.Request.Types)
	name, again := spec.Name, false
	err = b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if old, ok := st.Claimed(&spec); ok {
			name, again = old.Name, true
			return sameSubmission(ctx, old, &spec)
		}
		if strange != nil {
			return strange
		}
		spec.Role = cmp.Or(spec.Role, st.DefaultRole())
		api.NoteOf(ctx).Role = spec.Role
		if err := b.maySubmit(ctx, &spec); err != nil {
			return err
		}
		if err := st.AdmitBy(&spec, func(role string) bool { return api.GrantOf(ctx).May(access.View, role) }); err != nil {
			return api.Problemf(refusal(err), "%v", err)
		}
		apply(sched.Submit{Spec: spec})
		return nil
	}, func(st *sched.State) error {
		if view, err = b.view.Job(name); err != nil {
			return err
		}
		view.Again = again
		if st.Queued() <= explainAtOnce {
			view.Waits = b.waits(st.Reasons(name), name)
		}
		return nil
	})
	return view, err
}

// explainAtOnce is up to how many jobs in the queue a submission is told why
// it waits: to find out, all of them are gone through. It may ask.
const explainAtOnce = 100

// sameSubmission says what is in the way of answering with the job that was
// submitted by the same key.
func sameSubmission(ctx context.Context, old, spec *job.Spec) error {
	api.NoteOf(ctx).Role = old.Role
	if err := api.MayIn(api.GrantOf(ctx), access.Submit, old.Role); err != nil {
		return err
	}
	if old.ClientKey.Digest != spec.ClientKey.Digest {
		return api.Problemf(http.StatusUnprocessableEntity, "%s %q: job %q was submitted by this key and another body: use a key for each submission", api.IdempotencyKey, spec.ClientKey.Key, old.Name)
	}
	return nil
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
	if !ok {
		return ""
	}
	if !b.loop.connected.Load() {
		r.Lack, r.Seen = "a connection to a Mesos master", "there is none"
	}
	return r.Text()
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

func (b *leader) Kill(ctx context.Context, name string, force bool) error {
	return b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := matchJob(ctx, st, name); err != nil {
			return err
		}
		apply(sched.Kill{Job: name, Force: force})
		return nil
	})
}

// matchJob says what is in the way of changing a job: that it is not there, or
// another than the request means.
func matchJob(ctx context.Context, st *sched.State, name string) error {
	j, ok := st.Job(name)
	if !ok {
		return api.UnknownJob(name)
	}
	return api.Match(ctx, api.JobTag(j))
}

// readyWait is how long the loop may take for a round, with its write to the
// journal.
const readyWait = 5 * time.Second

// Ready asks the loop, which ends when it cannot write the journal.
func (b *leader) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- b.ask(ctx, nil, func(*sched.State) error { return nil }) }()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done(): // a disk that does not answer
		return api.NotYet("the scheduler has written its journal for more than %s", readyWait)
	}
}

func (b *leader) Health(context.Context) (api.Health, error) {
	return api.Health{Connected: b.loop.connected.Load(), FrameworkID: b.view.framework(), Role: api.Leader, Leading: b.url}, nil
}

// gaugesWait is how long an extension may take to begin counting.
const gaugesWait = 2 * time.Second

// Metrics counts what is recorded. What the extension does not tell now is
// left out.
func (b *leader) Metrics(ctx context.Context) (metrics.Snapshot, error) {
	s := b.view.metrics(b.loop.counters, b.loop.clock())
	s.GPUs = b.gpus.now()
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

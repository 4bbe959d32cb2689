package framework

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/cron"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// Schedules are documents of the journal, by name.
const schedulePrefix = "schedule/"

const (
	// maxSchedules bounds them: each is looked at whenever one is due.
	maxSchedules = 1000
	// maxSchedule bounds one's document in bytes when it is new; its runs have
	// room beside it.
	maxSchedule = 64 << 10
	// maxScheduleBytes bounds all of them: other documents need room too.
	maxScheduleBytes = 16 << 20
	// lookAgain is how long the keeper of schedules sleeps at most, since the
	// clock may be set meanwhile.
	lookAgain = time.Minute
)

// putSchedule is the event that records a schedule.
func putSchedule(e *cron.Entry) (sched.Put, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return sched.Put{}, fmt.Errorf("encode schedule %s: %w", e.Spec.Name, err)
	}
	return sched.Put{Key: schedulePrefix + e.Spec.Name, Value: text}, nil
}

// keepSchedules submits the jobs of schedules when they are due, until ctx
// ends.
func (b *leader) keepSchedules(ctx context.Context) error {
	for {
		wait := time.NewTimer(b.runDue(ctx))
		select {
		case <-wait.C:
		case <-b.rescheduled:
		case <-ctx.Done():
			wait.Stop()
			return nil
		}
		wait.Stop()
	}
}

// runDue does what is due and says how long to sleep.
func (b *leader) runDue(ctx context.Context) time.Duration {
	now := b.loop.clock()
	next := now.Add(lookAgain)
	err := b.try(ctx, func(st *sched.State, apply func(sched.Event)) (err error) {
		for name, p := range b.agenda.all(st) {
			wrong := p.err
			if wrong == nil && !p.next.IsZero() && !p.next.After(now) {
				wrong = b.stepSchedule(st, p.entry, now, apply)
				p = b.agenda.one(st, name)
			}
			if wrong != nil {
				err = errors.Join(err, fmt.Errorf("schedule %s: %w", name, wrong))
			} else if !p.next.IsZero() && p.next.Before(next) {
				next = p.next
			}
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		b.loop.log.WithError(err).Warn("schedules are left out")
	}
	return max(next.Sub(now), time.Millisecond)
}

// stepSchedule applies what one schedule wants done, and records with it that
// it was done. What could not be recorded is not done: it would be again and
// again.
func (b *leader) stepSchedule(st *sched.State, old *cron.Entry, now time.Time, apply func(sched.Event)) error {
	e := *old
	e.Runs = slices.Clone(old.Runs)
	due, err := e.Step(now, func(name string) (known, live bool) {
		j, ok := st.Job(name)
		ok = ok && j.Spec.Owner == e.Spec.Owner // another's may have taken the name
		return ok, ok && !j.Terminal()
	})
	if due == nil || err != nil {
		return err
	}
	ran := e
	if due.Submit != nil {
		ran.Ran(due)
	}
	put, err := admitNote(st, &ran)
	if err != nil {
		return err
	}
	for _, name := range due.Kill {
		apply(sched.Kill{Job: name})
	}
	for _, name := range due.Forget {
		apply(sched.Forget{Job: name})
	}
	if due.Submit != nil {
		if err := b.admitRun(st, due.Submit); err != nil {
			e.Refused(due, err)
			if put, err = admitNote(st, &e); err != nil {
				return err
			}
		} else {
			apply(sched.Submit{Spec: *due.Submit})
		}
	}
	apply(put)
	return nil
}

// admitNote makes the event that records what a schedule has done, if there is
// room for it.
func admitNote(st *sched.State, e *cron.Entry) (sched.Put, error) {
	put, err := putSchedule(e)
	if err != nil {
		return put, err
	}
	return put, st.AdmitPuts(map[string][]byte{put.Key: put.Value})
}

// admitRun says what is in the way of a schedule's job. It takes the place of
// its owner's ended ones alone, and its owner must still be permitted it.
func (b *leader) admitRun(st *sched.State, run *job.Spec) error {
	if b.may != nil && !b.may(run.Owner, run.Role) {
		return fmt.Errorf("%s may submit to role %s no more", run.Owner, run.Role)
	}
	if old, ok := st.Job(run.Name); ok && old.Spec.Owner != run.Owner {
		return fmt.Errorf("there is a job %q of another owner", run.Name)
	}
	return st.Admit(run)
}

// AddSchedule keeps a schedule whose jobs might be submitted now.
func (b *leader) AddSchedule(ctx context.Context, spec job.Spec) (view api.Schedule, err error) {
	if err := b.checkTypes(ctx, spec.Request.Types); err != nil {
		return view, err
	}
	var e *cron.Entry
	err = b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		spec.Role = cmp.Or(spec.Role, st.DefaultRole())
		api.NoteOf(ctx).Role = spec.Role
		if err := api.MayIn(api.GrantOf(ctx), access.Submit, spec.Role); err != nil {
			return err
		}
		e = cron.New(spec, b.loop.clock())
		put, err := putSchedule(e)
		if err != nil {
			return err
		}
		if err := b.admitSchedule(st, e, put); err != nil {
			return err
		}
		apply(put)
		return nil
	})
	if err != nil {
		return view, err
	}
	select {
	case b.rescheduled <- struct{}{}:
	default: // it looks anyway
	}
	next, err := e.Next()
	return scheduleView(e, next), err
}

// admitSchedule says what is in the way of a schedule: what would be in the
// way of its jobs, or another of its name.
func (b *leader) admitSchedule(st *sched.State, e *cron.Entry, put sched.Put) error {
	run := e.Spec
	run.Schedule = nil
	if err := st.Admit(&run); err != nil && !errors.As(err, new(*sched.FullError)) {
		return api.Problemf(refusal(err), "%v", err)
	}
	count, size := scheduleSizes(st)
	switch name := e.Spec.Name; {
	case st.Document(put.Key) != nil:
		return api.Problemf(http.StatusConflict, "schedule %q is there already: kill it first, or submit under another name", name)
	case count >= maxSchedules:
		return api.Problemf(http.StatusUnprocessableEntity, "there are %d schedules already: end some first", count)
	case len(put.Value) > maxSchedule:
		return api.Problemf(http.StatusUnprocessableEntity, "schedule %q has %d bytes, more than %d: put what is large into files", name, len(put.Value), maxSchedule)
	case size+len(put.Value) > maxScheduleBytes:
		return api.Problemf(http.StatusUnprocessableEntity, "schedules would have %d bytes together, more than %d: end some first", size+len(put.Value), maxScheduleBytes)
	}
	if err := st.AdmitPuts(map[string][]byte{put.Key: put.Value}); err != nil {
		return api.Problemf(http.StatusUnprocessableEntity, "%v", err)
	}
	return nil
}

func scheduleView(e *cron.Entry, next time.Time) api.Schedule {
	v := api.Schedule{Spec: e.Spec, Created: e.Created, Next: next, Note: e.Note, Runs: []api.ScheduledRun{}}
	for _, r := range e.Runs {
		v.Runs = append(v.Runs, api.ScheduledRun(r))
	}
	return v
}

// Schedules lists them by name. Those that cannot be read are in the log.
func (b *leader) Schedules(ctx context.Context) (list []api.Schedule, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) error {
		for _, p := range b.agenda.all(st) {
			if p.err == nil {
				list = append(list, scheduleView(p.entry, p.next))
			}
		}
		return nil
	})
	return list, err
}

// Schedule shows one.
func (b *leader) Schedule(ctx context.Context, name string) (view api.Schedule, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) error {
		switch p := b.agenda.one(st, name); {
		case p == nil:
			return api.UnknownSchedule(name)
		case p.err != nil:
			return api.Problemf(http.StatusInternalServerError, "read schedule %q: %w", name, p.err)
		default:
			view = scheduleView(p.entry, p.next)
			return nil
		}
	})
	return view, err
}

// EndSchedule forgets a schedule, also one that cannot be read.
func (b *leader) EndSchedule(ctx context.Context, name string) error {
	return b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		key := schedulePrefix + name
		p := b.agenda.one(st, name)
		if p == nil {
			return api.UnknownSchedule(name)
		}
		created := time.Time{}
		if p.err == nil { // a damaged one has no tag
			created = p.entry.Created
		}
		if err := api.Match(ctx, api.ScheduleTag(created)); err != nil {
			return err
		}
		apply(sched.Put{Key: key})
		return nil
	})
}

func (b *standby) AddSchedule(ctx context.Context, _ job.Spec) (s api.Schedule, err error) {
	return s, b.Elsewhere(ctx)
}
func (b *standby) Schedules(ctx context.Context) ([]api.Schedule, error) {
	return nil, b.Elsewhere(ctx)
}
func (b *standby) Schedule(ctx context.Context, _ string) (s api.Schedule, err error) {
	return s, b.Elsewhere(ctx)
}
func (b *standby) EndSchedule(ctx context.Context, _ string) error { return b.Elsewhere(ctx) }

func (n nobody) AddSchedule(context.Context, job.Spec) (s api.Schedule, err error) {
	return s, n.problem()
}
func (n nobody) Schedules(context.Context) ([]api.Schedule, error) { return nil, n.problem() }
func (n nobody) Schedule(context.Context, string) (s api.Schedule, err error) {
	return s, n.problem()
}
func (n nobody) EndSchedule(context.Context, string) error { return n.problem() }

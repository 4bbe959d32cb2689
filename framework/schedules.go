package framework

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
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
	// lookAgain is how long the keeper of schedules sleeps at most, since the
	// clock may be set meanwhile.
	lookAgain = time.Minute
)

// schedules reads those that are recorded. One that cannot be read is in the
// error; the others are there.
func schedules(st *sched.State) (map[string]*cron.Entry, error) {
	all := map[string]*cron.Entry{}
	var errs []error
	for key, text := range st.Documents() {
		name, ok := strings.CutPrefix(key, schedulePrefix)
		if !ok {
			continue
		}
		e := &cron.Entry{}
		if err := json.Unmarshal(text, e); err != nil || e.Spec.Schedule == nil {
			errs = append(errs, fmt.Errorf("read schedule %q: it is damaged: end it and submit it again (%w)", name, err))
			continue
		}
		all[name] = e
	}
	return all, errors.Join(errs...)
}

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
	err := b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		all, err := schedules(st)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			e := all[name]
			if stepErr := stepSchedule(st, e, now, apply); stepErr != nil {
				err = errors.Join(err, fmt.Errorf("schedule %s: %w", name, stepErr))
				continue
			}
			if at, nextErr := e.Next(); nextErr == nil && !at.IsZero() && at.Before(next) {
				next = at
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
// it was done.
func stepSchedule(st *sched.State, e *cron.Entry, now time.Time, apply func(sched.Event)) error {
	due, err := e.Step(now, func(name string) (known, live bool) {
		j, ok := st.Job(name)
		return ok, ok && !j.Terminal()
	})
	if due == nil || err != nil {
		return err
	}
	for _, name := range due.Kill {
		apply(sched.Kill{Job: name})
	}
	for _, name := range due.Forget {
		apply(sched.Forget{Job: name})
	}
	if due.Submit != nil {
		if err := admitRun(st, due.Submit); err != nil {
			e.Refused(due, err)
		} else {
			apply(sched.Submit{Spec: *due.Submit})
			e.Ran(due)
		}
	}
	put, err := putSchedule(e)
	if err == nil {
		apply(put)
	}
	return err
}

// admitRun says what is in the way of a schedule's job. It takes the place of
// its owner's ended ones alone.
func admitRun(st *sched.State, run *job.Spec) error {
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
		if err := admitSchedule(st, e, put); err != nil {
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
	return scheduleView(e)
}

// admitSchedule says what is in the way of a schedule: what would be in the
// way of its jobs, or another of its name.
func admitSchedule(st *sched.State, e *cron.Entry, put sched.Put) error {
	run := e.Spec
	run.Schedule = nil
	if err := st.Admit(&run); err != nil && !errors.As(err, new(*sched.FullError)) {
		return api.Problemf(refusal(err), "%v", err)
	}
	all, err := schedules(st)
	switch {
	case all[e.Spec.Name] != nil:
		return api.Problemf(http.StatusConflict, "schedule %q is there already: kill it first, or submit under another name", e.Spec.Name)
	case len(all) >= maxSchedules:
		return api.Problemf(http.StatusUnprocessableEntity, "there are %d schedules already: end some first", len(all))
	}
	if err != nil {
		return err
	}
	if err := st.AdmitPuts(map[string][]byte{put.Key: put.Value}); err != nil {
		return api.Problemf(http.StatusUnprocessableEntity, "%v", err)
	}
	return nil
}

func scheduleView(e *cron.Entry) (api.Schedule, error) {
	next, err := e.Next()
	if err != nil {
		return api.Schedule{}, fmt.Errorf("schedule %s: %w", e.Spec.Name, err)
	}
	v := api.Schedule{Spec: e.Spec, Created: e.Created, Next: next, Note: e.Note, Runs: []api.ScheduledRun{}}
	for _, r := range e.Runs {
		v.Runs = append(v.Runs, api.ScheduledRun(r))
	}
	return v, nil
}

// Schedules lists them by name.
func (b *leader) Schedules(ctx context.Context) (list []api.Schedule, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) error {
		all, err := schedules(st)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			v, err := scheduleView(all[name])
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		return nil
	})
	return list, err
}

// Schedule shows one.
func (b *leader) Schedule(ctx context.Context, name string) (view api.Schedule, err error) {
	list, err := b.Schedules(ctx)
	if err != nil {
		return view, err
	}
	i := slices.IndexFunc(list, func(s api.Schedule) bool { return s.Spec.Name == name })
	if i < 0 {
		return view, unknownSchedule(name)
	}
	return list[i], nil
}

func unknownSchedule(name string) error {
	return api.Problemf(http.StatusNotFound, "there is no schedule %q", name)
}

// EndSchedule forgets a schedule, also one that cannot be read.
func (b *leader) EndSchedule(ctx context.Context, name string) error {
	return b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		key := schedulePrefix + name
		if st.Documents()[key] == nil {
			return unknownSchedule(name)
		}
		all, _ := schedules(st) // a damaged one has no tag
		created := time.Time{}
		if e := all[name]; e != nil {
			created = e.Created
		}
		if err := api.Match(ctx, api.ScheduleTag(created)); err != nil {
			return err
		}
		apply(sched.Put{Key: key})
		return nil
	})
}

func (b *standby) AddSchedule(ctx context.Context, _ job.Spec) (s api.Schedule, err error) {
	return s, b.elsewhere(ctx)
}
func (b *standby) Schedules(ctx context.Context) ([]api.Schedule, error) {
	return nil, b.elsewhere(ctx)
}
func (b *standby) Schedule(ctx context.Context, _ string) (s api.Schedule, err error) {
	return s, b.elsewhere(ctx)
}
func (b *standby) EndSchedule(ctx context.Context, _ string) error { return b.elsewhere(ctx) }

func (n nobody) AddSchedule(context.Context, job.Spec) (s api.Schedule, err error) {
	return s, n.problem()
}
func (n nobody) Schedules(context.Context) ([]api.Schedule, error) { return nil, n.problem() }
func (n nobody) Schedule(context.Context, string) (s api.Schedule, err error) {
	return s, n.problem()
}
func (n nobody) EndSchedule(context.Context, string) error { return n.problem() }

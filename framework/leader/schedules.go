package leader

import (
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
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// schedulePrefix precedes a schedule's id in the key of its document in the journal.
const schedulePrefix = "schedule/"

// scheduleID identifies a schedule: NAME/OWNER, or NAME without an owner. Names contain no slash. Releases with journal schema 6
// recorded schedules with owners by NAME too, which remains the id of these until their next run.
func scheduleID(spec *job.Spec) string {
	if spec.Owner == "" {
		return spec.Name
	}
	return spec.Name + "/" + spec.Owner
}

const (
	// maxSchedules limits the number of schedules: all are checked whenever one is due.
	maxSchedules = 1000
	// maxSchedule limits the size of a new schedule's document, in bytes. Its later
	// runs may exceed it.
	maxSchedule = 64 << 10
	// maxScheduleBytes limits the total size of all schedules, to leave space for
	// other documents.
	maxScheduleBytes = 16 << 20
	// maxScheduleWait is the longest time RunSchedules sleeps, because the clock may
	// be adjusted meanwhile.
	maxScheduleWait = time.Minute
)

// scheduleDocument returns the event that records a schedule.
func scheduleDocument(e *cron.ScheduleEntry) (sched.PutDocument, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return sched.PutDocument{}, fmt.Errorf("encode schedule %s: %w", e.Spec.Name, err)
	}
	return sched.PutDocument{Key: schedulePrefix + scheduleID(&e.Spec), Value: text}, nil
}

// Schedules records schedules and submits their jobs when they are due.
type Schedules struct {
	leader *Leader
	// ownerMaySubmit reports whether the owner of a schedule may still submit to its role; nil permits everything.
	ownerMaySubmit func(owner, role string) bool
	// cache has the decoded schedules. Only functions that run in the loop use them.
	cache scheduleCache
	// changed has an element after a schedule was added, until RunSchedules has taken it: the new schedule may be due
	// earlier than the one it waits for. Its capacity is 1.
	changed chan struct{}
}

// RunSchedules submits the jobs of schedules when they are due. It returns nil when
// ctx ends. Runs that were due while no scheduler led are found by the first call of SubmitDue.
func (s *Schedules) RunSchedules(ctx context.Context) error {
	for {
		wait := time.NewTimer(s.SubmitDue(ctx))
		select {
		case <-wait.C:
		case <-s.changed:
		case <-ctx.Done():
			wait.Stop()
			return nil
		}
		wait.Stop()
	}
}

// SubmitDue submits the jobs that are due and returns the time until the next one is, at most maxScheduleWait. A schedule
// that fails is logged and tried again with the next call; it does not delay the others.
func (s *Schedules) SubmitDue(ctx context.Context) time.Duration {
	now := s.leader.loop.clock()
	next := now.Add(maxScheduleWait)
	err := s.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) (err error) {
		for id, p := range s.cache.allSchedules(st) {
			wrong := p.err
			if wrong == nil && !p.next.IsZero() && !p.next.After(now) {
				if wrong = s.stepSchedule(st, p.entry, now, apply); wrong == nil && id != scheduleID(&p.entry.Spec) {
					apply(sched.PutDocument{Key: schedulePrefix + id}) // of an earlier release: it has been recorded by its new id
					id = scheduleID(&p.entry.Spec)
				}
				p = s.cache.findSchedule(st, id)
			}
			if wrong != nil {
				err = errors.Join(err, fmt.Errorf("schedule %s: %w", id, wrong))
			} else if !p.next.IsZero() && p.next.Before(next) {
				next = p.next
			}
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.leader.loop.log.WithError(err).Warn("schedules are left out")
	}
	return max(next.Sub(now), time.Millisecond)
}

// stepSchedule applies the due actions of one schedule together with the record that
// they are done. If that record is not admitted it applies nothing, because the
// actions would otherwise be repeated. A run that is not admitted is recorded as refused, and is not tried again; it is
// admitted after the kills, which may free what it needs.
func (s *Schedules) stepSchedule(st *sched.State, old *cron.ScheduleEntry, now time.Time, apply func(sched.Event)) error {
	e := *old
	e.Runs = slices.Clone(old.Runs)
	due, err := e.RunDue(now, func(name string) (known, live bool) {
		_, live, known = st.NewestOfOwner(e.Spec.Owner, name)
		return known, live
	})
	if due == nil || err != nil {
		return err
	}
	ran := e // the entry if the run is submitted; e remains the one to record a refusal in
	if due.Submit != nil {
		due.Submit.Name = freeRunName(st, due.Submit)
		ran.RecordRun(due)
	}
	put, err := admitScheduleRecord(st, &ran)
	if err != nil {
		return err
	}
	for _, name := range due.Kill {
		run, _, _ := st.NewestOfOwner(e.Spec.Owner, name)
		apply(sched.KillJob{Job: run.String()})
	}
	for _, name := range due.Forget {
		for run, live, ok := st.NewestOfOwner(e.Spec.Owner, name); ok && !live; run, live, ok = st.NewestOfOwner(e.Spec.Owner, name) {
			apply(sched.ForgetJob{Job: run.String()})
		}
	}
	if due.Submit != nil {
		err := s.leader.checkInLoop(st, &submission{origin: bySchedule, spec: due.Submit})
		if err != nil {
			if put, err = refusalRecord(st, e, due, err); err != nil {
				return err
			}
		} else {
			apply(sched.SubmitJob{Spec: *due.Submit})
		}
	}
	apply(put)
	return nil
}

// refusalRecord returns the event that records why a run was not submitted. It omits the reason if the record would exceed
// the document limits. Without a reason the record is smaller than that of the submitted run, which was admitted.
func refusalRecord(st *sched.State, e cron.ScheduleEntry, due *cron.DueActions, why error) (sched.PutDocument, error) {
	without := e
	e.RecordRefusal(due, why)
	if put, err := admitScheduleRecord(st, &e); err == nil {
		return put, nil
	}
	return scheduleDocument(&without)
}

// freeRunName returns the name of a run, with a number if a job of its owner that has not ended has that name.
func freeRunName(st *sched.State, run *job.Spec) string {
	name := run.Name
	for n := 2; ; n++ {
		if _, live, _ := st.NewestOfOwner(run.Owner, name); !live {
			return name
		}
		name = job.NumberedRunName(run.Name, n)
	}
}

// admitScheduleRecord returns the event that records a schedule's runs, or an error if
// the document limits are exceeded.
func admitScheduleRecord(st *sched.State, e *cron.ScheduleEntry) (sched.PutDocument, error) {
	put, err := scheduleDocument(e)
	if err != nil {
		return put, err
	}
	return put, st.AdmitDocuments(map[string][]byte{put.Key: put.Value})
}

// checkOwner returns an error if the owner of a schedule may no longer submit its jobs.
func (s *Schedules) checkOwner(run *job.Spec) error {
	if s.ownerMaySubmit != nil && !s.ownerMaySubmit(run.Owner, run.Role) {
		return fmt.Errorf("%s may no longer submit to role %s", run.Owner, run.Role)
	}
	return nil
}

// AddSchedule records a schedule. It fails if its jobs could not be submitted now. It returns the role of the jobs also then,
// if it is known.
func (s *Schedules) AddSchedule(ctx context.Context, by *access.Grant, spec job.Spec) (view api.ScheduleView, role string, err error) {
	sub := &submission{origin: asSchedule, spec: &spec, by: by}
	if err := s.leader.checkBeforeLoop(ctx, sub); err != nil {
		return view, "", err
	}
	err = s.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		err := s.leader.checkInLoop(st, sub)
		role = spec.Role
		if err != nil {
			return err
		}
		apply(sub.record)
		return nil
	})
	if err != nil {
		return view, role, err
	}
	select {
	case s.changed <- struct{}{}:
	default: // a wake-up is already pending
	}
	next, err := sub.schedule.NextDue()
	return scheduleView(sub.schedule, next), role, err
}

// prepareRecord sets what records a schedule, unless its name is in use or it would exceed a limit on schedules.
func (s *Schedules) prepareRecord(st *sched.State, sub *submission) (err error) {
	sub.schedule = cron.NewEntry(*sub.spec, s.leader.loop.clock())
	if sub.record, err = scheduleDocument(sub.schedule); err != nil {
		return err
	}
	return s.checkRecord(st, sub.spec, sub.record)
}

// checkRecord returns why a schedule cannot be recorded, nil if it can.
func (s *Schedules) checkRecord(st *sched.State, spec *job.Spec, put sched.PutDocument) error {
	name := spec.Name
	count, size := s.cache.countByOwner(st)
	tooMany := st.SharedLimit(maxSchedules, "schedules").Check(&count, spec, 1)
	tooLarge := st.SharedLimit(maxScheduleBytes, "bytes of schedules").Check(&size, spec, len(put.Value))
	switch {
	case s.cache.hasSchedule(st, spec.Owner, name):
		return api.NewProblemf(http.StatusConflict, "schedule %q already exists: kill it first, or submit under another name", name).WithCode(api.CodeScheduleExists,
			name)
	case tooMany != nil:
		return api.NewProblemf(http.StatusUnprocessableEntity, "%v", tooMany)
	case len(put.Value) > maxSchedule:
		return api.NewProblemf(http.StatusUnprocessableEntity,
			"schedule %q has %d bytes, more than %d: put what is large into files", name, len(put.Value), maxSchedule)
	case tooLarge != nil:
		return api.NewProblemf(http.StatusUnprocessableEntity, "%v", tooLarge)
	}
	return st.AdmitDocuments(map[string][]byte{put.Key: put.Value})
}

// scheduleView returns the API's view of a schedule that is next due at next.
func scheduleView(e *cron.ScheduleEntry, next time.Time) api.ScheduleView {
	v := api.ScheduleView{Spec: e.Spec, Created: e.Created, NextRun: next, Note: e.Note, Runs: []api.ScheduledRun{}}
	for _, r := range e.Runs {
		v.Runs = append(v.Runs, api.ScheduledRun(r))
	}
	return v
}

// ListSchedules returns the schedules by name and owner. It omits unreadable ones, which are logged.
func (s *Schedules) ListSchedules(ctx context.Context) (list []api.ScheduleView, err error) {
	err = s.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		for _, p := range s.cache.allSchedules(st) {
			if p.err == nil {
				list = append(list, scheduleView(p.entry, p.next))
			}
		}
		return nil
	})
	return list, err
}

// GetSchedule returns the schedule that a requester means by [OWNER/]NAME.
func (s *Schedules) GetSchedule(ctx context.Context, by *access.Grant, reference string) (view api.ScheduleView, err error) {
	err = s.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		_, p, err := s.cache.resolveSchedule(st, by, reference)
		switch {
		case err != nil:
			return err
		case p.err != nil:
			return api.NewProblemf(http.StatusInternalServerError, "read schedule %q: %w", reference, p.err)
		}
		view = scheduleView(p.entry, p.next)
		return nil
	})
	return view, err
}

// EndSchedule deletes a schedule, even an unreadable one.
func (s *Schedules) EndSchedule(ctx context.Context, change request.Change, reference string) error {
	return s.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		id, p, err := s.cache.resolveSchedule(st, change.By, reference)
		if err != nil {
			return err
		}
		created := time.Time{}
		if p.err == nil { // an unreadable schedule has no ETag
			created = p.entry.Created
		}
		if err := change.CheckIfMatch(request.ScheduleETag(created)); err != nil {
			return err
		}
		apply(sched.PutDocument{Key: schedulePrefix + id})
		return nil
	})
}

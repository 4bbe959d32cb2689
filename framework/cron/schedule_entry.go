// Package cron decides when the jobs of schedules are due and what becomes of
// those that went before. It is a pure function of a schedule, the time and
// the jobs there are; its callers keep the schedule and do what it says.
package cron

import (
	"fmt"
	"slices"
	"time"

	"mesos-gpu/job"
)

// ScheduleEntry is a schedule and what it has done.
type ScheduleEntry struct {
	// Spec is that of its jobs, with the Schedule.
	Spec    job.Spec  `json:"spec"`
	Created time.Time `json:"created"`
	// Seen is until when its times have been looked at.
	Seen time.Time `json:"seen"`
	// Runs are its jobs that are still known, oldest first.
	Runs []ScheduledRun `json:"runs,omitempty"`
	// Note says why the last time that was due brought no run, if so.
	Note string `json:"note,omitempty"`
}

// ScheduledRun is a job that a schedule has submitted.
type ScheduledRun struct {
	Job string    `json:"job"`
	Due time.Time `json:"due"`
}

// DueActions is what a schedule wants done.
type DueActions struct {
	// At is the time that has come.
	At time.Time
	// Kill are runs to end, Forget those that have ended and are not kept any
	// more.
	Kill, Forget []string
	// Submit is the job to submit, nil if the time is passed over.
	Submit *job.Spec
}

// JobLookup is what becomes of a job: whether it is known, and has not ended.
type JobLookup func(name string) (known, live bool)

// NewEntry makes the schedule of a Spec, whose first time is after now.
func NewEntry(spec job.Spec, now time.Time) *ScheduleEntry {
	return &ScheduleEntry{Spec: spec, Created: now, Seen: now}
}

// NextDue is when it is due.
func (e *ScheduleEntry) NextDue() (time.Time, error) { return e.Spec.Schedule.NextRun(e.Seen) }

// RunDue looks at the times that have come since it was last asked. Of several,
// as after a time without a scheduler, the last alone counts.
func (e *ScheduleEntry) RunDue(now time.Time, known JobLookup) (*DueActions, error) {
	next, err := e.Spec.Schedule.NextRunFunc()
	if err != nil {
		return nil, err
	}
	at := next(e.Seen)
	if at.IsZero() || at.After(now) {
		return nil, nil
	}
	at = lastDueTime(next, at, now)
	e.Seen, e.Note = now, ""
	due := &DueActions{At: at}
	live := e.dropFinishedRuns(known, due)
	switch {
	case len(live) > 0 && e.Spec.Schedule.Overlap == job.SkipOverlap:
		e.Note = fmt.Sprintf("passed over at %s: %s has not ended", at.Format(time.RFC3339), live[0])
		return due, nil
	case e.Spec.Schedule.Overlap == job.ReplaceOverlap:
		due.Kill = live
	}
	spec := e.Spec
	spec.Name, spec.Schedule = job.RunName(e.Spec.Name, at), nil
	due.Submit = &spec
	return due, nil
}

// lastDueTime is the last time that comes until now, from one that has come. Times
// are a minute apart at least. It halves what is left: one that is due each
// minute may have been missed for weeks.
func lastDueTime(next func(time.Time) time.Time, at, now time.Time) time.Time {
	for none := now; none.Sub(at) >= time.Minute; { // none comes after none
		middle := at.Add(none.Sub(at) / 2)
		if later := next(middle); later.IsZero() || later.After(now) {
			none = middle
		} else {
			at = later
		}
	}
	return at
}

// dropFinishedRuns drops what is known no more and what History does not keep; live are
// the others that have not ended.
func (e *ScheduleEntry) dropFinishedRuns(known JobLookup, due *DueActions) (live []string) {
	kept := 0
	for i := len(e.Runs) - 1; i >= 0; i-- {
		name := e.Runs[i].Job
		there, lives := known(name)
		switch {
		case lives:
			live = append([]string{name}, live...)
			continue
		case there && kept < e.Spec.Schedule.History:
			kept++
			continue
		case there:
			due.Forget = append(due.Forget, name)
		}
		e.Runs = slices.Delete(e.Runs, i, i+1)
	}
	return live
}

// RecordRun notes that the run is submitted.
func (e *ScheduleEntry) RecordRun(due *DueActions) {
	e.Runs = append(e.Runs, ScheduledRun{Job: due.Submit.Name, Due: due.At})
}

// RecordRefusal notes that it could not be.
func (e *ScheduleEntry) RecordRefusal(due *DueActions, why error) {
	e.Note = fmt.Sprintf("no run at %s: %v", due.At.Format(time.RFC3339), why)
}

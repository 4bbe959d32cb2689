// Package cron decides when the jobs of schedules are due and what happens to earlier
// runs. Its decisions are a pure function of a schedule, the time and the existing
// jobs. The caller stores the schedule and carries out the actions.
package cron

import (
	"fmt"
	"slices"
	"time"

	"mesos-gpu/job"
)

// ScheduleEntry is a schedule with its runs.
type ScheduleEntry struct {
	// Spec is the specification of its jobs, including the Schedule.
	Spec job.Spec `json:"spec"`
	// Created is when the schedule was submitted.
	Created time.Time `json:"created"`
	// Seen is the time up to which due times have been processed.
	Seen time.Time `json:"seen"`
	// Runs are its jobs that still exist, oldest first.
	Runs []ScheduledRun `json:"runs,omitempty"`
	// Note is why the latest due time caused no run; "" if it did.
	Note string `json:"note,omitempty"`
}

// ScheduledRun is a job that a schedule has submitted.
type ScheduledRun struct {
	// Job is the name of the job; Due is the time for which it was submitted.
	Job string    `json:"job"`
	Due time.Time `json:"due"`
}

// DueActions are the actions that a schedule requires.
type DueActions struct {
	// At is the due time.
	At time.Time
	// Kill names runs to kill; Forget names ended runs to delete.
	Kill, Forget []string
	// Submit is the job to submit, nil if this due time is skipped.
	Submit *job.Spec
}

// JobLookup reports whether a job exists, and whether it has not ended.
type JobLookup func(name string) (known, live bool)

// NewEntry returns a schedule whose first due time is after now.
func NewEntry(spec job.Spec, now time.Time) *ScheduleEntry {
	return &ScheduleEntry{Spec: spec, Created: now, Seen: now}
}

// NextDue returns the next due time.
func (e *ScheduleEntry) NextDue() (time.Time, error) { return e.Spec.Schedule.NextRun(e.Seen) }

// RunDue returns the actions of the due times since the last call, nil if there are
// none. Of several due times, as after an outage, only the last one counts.
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

// lastDueTime returns the last due time until now, given an earlier one. Due times are
// at least a minute apart. It uses binary search because a schedule that is due every
// minute may have missed weeks of due times.
func lastDueTime(next func(time.Time) time.Time, at, now time.Time) time.Time {
	for none := now; none.Sub(at) >= time.Minute; { // no due time is after none
		middle := at.Add(none.Sub(at) / 2)
		if later := next(middle); later.IsZero() || later.After(now) {
			none = middle
		} else {
			at = later
		}
	}
	return at
}

// dropFinishedRuns drops runs that no longer exist or that exceed History. It returns
// the runs that have not ended.
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

// RecordRun records that the run is submitted.
func (e *ScheduleEntry) RecordRun(due *DueActions) {
	e.Runs = append(e.Runs, ScheduledRun{Job: due.Submit.Name, Due: due.At})
}

// RecordRefusal records why the run was not submitted.
func (e *ScheduleEntry) RecordRefusal(due *DueActions, why error) {
	e.Note = fmt.Sprintf("no run at %s: %v", due.At.Format(time.RFC3339), why)
}

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

// Entry is a schedule and what it has done.
type Entry struct {
	// Spec is that of its jobs, with the Schedule.
	Spec    job.Spec  `json:"spec"`
	Created time.Time `json:"created"`
	// Seen is until when its times have been looked at.
	Seen time.Time `json:"seen"`
	// Runs are its jobs that are still known, oldest first.
	Runs []Run `json:"runs,omitempty"`
	// Note says why the last time that was due brought no run, if so.
	Note string `json:"note,omitempty"`
}

// Run is a job that a schedule has submitted.
type Run struct {
	Job string    `json:"job"`
	Due time.Time `json:"due"`
}

// Due is what a schedule wants done.
type Due struct {
	// At is the time that has come.
	At time.Time
	// Kill are runs to end, Forget those that have ended and are not kept any
	// more.
	Kill, Forget []string
	// Submit is the job to submit, nil if the time is passed over.
	Submit *job.Spec
}

// Known is what becomes of a job: whether it is known, and has not ended.
type Known func(name string) (known, live bool)

// New makes the schedule of a Spec, whose first time is after now.
func New(spec job.Spec, now time.Time) *Entry { return &Entry{Spec: spec, Created: now, Seen: now} }

// Next is when it is due.
func (e *Entry) Next() (time.Time, error) { return e.Spec.Schedule.Next(e.Seen) }

// Step looks at the times that have come since it was last asked. Of several,
// as after a time without a scheduler, the last alone counts.
func (e *Entry) Step(now time.Time, known Known) (*Due, error) {
	next, err := e.Spec.Schedule.Times()
	if err != nil {
		return nil, err
	}
	at := next(e.Seen)
	if at.IsZero() || at.After(now) {
		return nil, nil
	}
	at = last(next, at, now)
	e.Seen, e.Note = now, ""
	due := &Due{At: at}
	live := e.sweep(known, due)
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

// last is the last time that comes until now, from one that has come. Times
// are a minute apart at least. It halves what is left: one that is due each
// minute may have been missed for weeks.
func last(next func(time.Time) time.Time, at, now time.Time) time.Time {
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

// sweep drops what is known no more and what History does not keep; live are
// the others that have not ended.
func (e *Entry) sweep(known Known, due *Due) (live []string) {
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

// Ran notes that the run is submitted.
func (e *Entry) Ran(due *Due) {
	e.Runs = append(e.Runs, Run{Job: due.Submit.Name, Due: due.At})
}

// Refused notes that it could not be.
func (e *Entry) Refused(due *Due, why error) {
	e.Note = fmt.Sprintf("no run at %s: %v", due.At.Format(time.RFC3339), why)
}

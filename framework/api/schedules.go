package api

import (
	"time"

	"mesos-gpu/job"
)

// ScheduleView is the API representation of a schedule.
type ScheduleView struct {
	// Spec is the specification of its jobs, including the schedule.
	Spec    job.Spec  `json:"spec"`
	Created time.Time `json:"created"`
	// NextRun is the time of the next run, in the schedule's time zone.
	NextRun time.Time `json:"next"`
	// Runs are its remembered jobs, oldest first.
	Runs []ScheduledRun `json:"runs"`
	// Note says why the last due time started no run, or is empty.
	Note string `json:"note,omitempty"`
}

// ScheduledRun is a job that a schedule has submitted.
type ScheduledRun struct {
	Job string    `json:"job"`
	Due time.Time `json:"due"`
}

// ScheduleList is the response to GET /v1/schedules, ordered by name.
type ScheduleList struct {
	Schedules []ScheduleView `json:"schedules"`
	Next      string         `json:"next,omitempty"`
}

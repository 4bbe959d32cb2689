package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is when a job runs repeatedly.
type Schedule struct {
	// Cron has five fields, from minute to day of the week, or is one of
	// @hourly, @daily, @weekly, @monthly and @yearly.
	Cron string `json:"cron"`
	// TimeZone is a name in the time zone database. Empty means UTC.
	TimeZone string `json:"time_zone,omitempty"`
	// Overlap determines the action if a run is due while an earlier one has not ended.
	Overlap OverlapPolicy `json:"overlap,omitempty"`
	// History is how many ended runs are kept.
	History int `json:"history,omitempty"`
}

// OverlapPolicy is how a schedule treats runs that would overlap.
type OverlapPolicy string

const (
	// SkipOverlap skips the new run.
	SkipOverlap OverlapPolicy = "skip"
	// AllowOverlap starts the new run as well.
	AllowOverlap OverlapPolicy = "allow"
	// ReplaceOverlap ends the old run.
	ReplaceOverlap OverlapPolicy = "replace"
)

const (
	// DefaultHistory is the History of a Schedule that sets none.
	DefaultHistory = 3
	// MaxHistory bounds History.
	MaxHistory = 100
	// runLayout is appended to the names of runs, after a dash. The time is UTC.
	runLayout = "20060102-1504"
	// maxScheduleName is the length of a schedule's name for which the names of
	// its runs are not too long.
	maxScheduleName = 63 - 1 - len(runLayout)
)

// setDefaults fills in what is absent.
func (s *Schedule) setDefaults() {
	s.Overlap = cmp.Or(s.Overlap, SkipOverlap)
	s.History = cmp.Or(s.History, DefaultHistory)
}

// RunName returns the name of the job that a schedule submits at that time.
func RunName(schedule string, due time.Time) string {
	return schedule + "-" + due.UTC().Format(runLayout)
}

// NumberedRunName returns another name for a run, as long as names may be.
func NumberedRunName(name string, n int) string {
	number := "-" + strconv.Itoa(n)
	due := len(name) - 1 - len(runLayout)
	return name[:min(due, maxScheduleName-len(number))] + name[due:] + number
}

// NextRun returns the first time after another at which the schedule is due, or zero if
// it is not due for years. It reads the system's time zone database.
func (s *Schedule) NextRun(after time.Time) (time.Time, error) {
	next, err := s.NextRunFunc()
	if err != nil {
		return time.Time{}, err
	}
	return next(after), nil
}

// NextRunFunc parses the schedule once and returns NextRun as a function.
func (s *Schedule) NextRunFunc() (func(after time.Time) time.Time, error) {
	// The library would also accept a time zone or an interval here. The zone
	// has a key of its own. Intervals would start again with each restart.
	if first, _, _ := strings.Cut(s.Cron, " "); strings.Contains(first, "=") || first == "@every" {
		return nil, scheduleError("cron", "cron %q begins with %q: write five fields such as %q, and the zone as time_zone", s.Cron, first, "0 3 * * *")
	}
	times, err := cron.ParseStandard(s.Cron)
	if err != nil {
		return nil, scheduleError("cron", "cron %q: %w: write five fields such as %q, or @daily", s.Cron, err, "0 3 * * *")
	}
	zone, err := time.LoadLocation(s.TimeZone)
	if err != nil || s.TimeZone == "Local" { // which differs between schedulers
		return nil, scheduleError("time_zone", "time_zone %q is not a time zone such as Europe/Berlin", s.TimeZone)
	}
	return func(after time.Time) time.Time { return times.Next(after.In(zone)) }, nil
}

// scheduleError returns a mistake in a key of the schedule.
func scheduleError(key, format string, args ...any) error {
	return &FieldError{Path: FieldPath{"schedule", key}, err: fmt.Errorf(format, args...)}
}

// validateSchedule checks the schedule, and that the rest of the job allows one.
func (s *Spec) validateSchedule(bad reportFunc) {
	v := s.Schedule
	if v == nil {
		return
	}
	if len(s.Name) > maxScheduleName {
		bad(field("name").and("schedule"), "name: %d letters, and a schedule's has %d at most: its runs add their time", len(s.Name), maxScheduleName)
	}
	if s.Service != nil {
		bad(field("schedule").and("service"), "schedule: the job is a service: it runs until a user ends it")
	}
	if len(s.After) > 0 {
		bad(field("after").and("schedule"), "after: the runs of a schedule wait for no other job")
	}
	if !slices.Contains([]OverlapPolicy{SkipOverlap, AllowOverlap, ReplaceOverlap}, v.Overlap) {
		bad(field("schedule", "overlap"), "schedule: overlap: %q is not one of %s, %s, %s", v.Overlap, SkipOverlap, AllowOverlap, ReplaceOverlap)
	}
	if v.History < 1 || v.History > MaxHistory {
		bad(field("schedule", "history"), "schedule: history: %d is not between 1 and %d", v.History, MaxHistory)
	}
	next, err := v.NextRun(time.Unix(0, 0))
	wrong, isWrong := errors.AsType[*FieldError](err)
	switch {
	case isWrong:
		bad(fieldSet{wrong.Path}, "schedule: %w", err)
	case next.IsZero():
		bad(field("schedule", "cron"), "schedule: cron %q names no day that there is", v.Cron)
	}
}

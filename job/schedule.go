package job

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule says when to run a job again and again.
type Schedule struct {
	// Cron is five fields, minute to day of the week, or one of @hourly,
	// @daily, @weekly, @monthly and @yearly.
	Cron string `json:"cron"`
	// TimeZone is a name of the time zone database; empty is UTC.
	TimeZone string `json:"time_zone,omitempty"`
	// Overlap says what becomes of a run that is due while an earlier one has
	// not ended.
	Overlap OverlapPolicy `json:"overlap,omitempty"`
	// History is how many runs that have ended are kept.
	History int `json:"history,omitempty"`
}

// OverlapPolicy is a way to treat two runs that would go at a time.
type OverlapPolicy string

const (
	// SkipOverlap passes the new run over.
	SkipOverlap OverlapPolicy = "skip"
	// AllowOverlap has both run.
	AllowOverlap OverlapPolicy = "allow"
	// ReplaceOverlap ends the old run.
	ReplaceOverlap OverlapPolicy = "replace"
)

const (
	// DefaultHistory is what a Schedule without one keeps.
	DefaultHistory = 3
	// MaxHistory bounds it.
	MaxHistory = 100
	// runLayout follows a dash in the names of runs; the time is UTC.
	runLayout = "20060102-1504"
	// maxScheduleName is how long the name of a schedule may be for its runs to
	// have names.
	maxScheduleName = 63 - 1 - len(runLayout)
)

func (v *Schedule) setDefaults() {
	v.Overlap = cmp.Or(v.Overlap, SkipOverlap)
	v.History = cmp.Or(v.History, DefaultHistory)
}

// RunName is that of the job which a schedule runs at that time.
func RunName(schedule string, due time.Time) string {
	return schedule + "-" + due.UTC().Format(runLayout)
}

// NextRun is the first time after another that the schedule names; zero if there
// is none in years. It looks its time zone up in the system's database.
func (v *Schedule) NextRun(after time.Time) (time.Time, error) {
	next, err := v.NextRunFunc()
	if err != nil {
		return time.Time{}, err
	}
	return next(after), nil
}

// NextRunFunc is Next for many times: it reads the schedule once.
func (v *Schedule) NextRunFunc() (func(after time.Time) time.Time, error) {
	// The library would take a zone or an interval here too. The zone has a
	// key of its own; runs at an interval would shift with each restart.
	if first, _, _ := strings.Cut(v.Cron, " "); strings.Contains(first, "=") || first == "@every" {
		return nil, fmt.Errorf("cron %q begins with %q: write five fields such as %q, and the zone as time_zone", v.Cron, first, "0 3 * * *")
	}
	times, err := cron.ParseStandard(v.Cron)
	if err != nil {
		return nil, fmt.Errorf("cron %q: %w: write five fields such as %q, or @daily", v.Cron, err, "0 3 * * *")
	}
	zone, err := time.LoadLocation(v.TimeZone)
	if err != nil || v.TimeZone == "Local" { // whose?
		return nil, fmt.Errorf("time_zone %q is none such as Europe/Berlin", v.TimeZone)
	}
	return func(after time.Time) time.Time { return times.Next(after.In(zone)) }, nil
}

// validateSchedule checks the schedule, and what the job says beside it.
func (s *Spec) validateSchedule(bad func(format string, args ...any)) {
	v := s.Schedule
	if v == nil {
		return
	}
	if len(s.Name) > maxScheduleName {
		bad("name: %d letters, and a schedule's has %d at most: its runs add their time", len(s.Name), maxScheduleName)
	}
	if s.Service != nil {
		bad("schedule: the job is a service: it runs until somebody ends it")
	}
	if len(s.After) > 0 {
		bad("after: the runs of a schedule wait for no other job")
	}
	if !slices.Contains([]OverlapPolicy{SkipOverlap, AllowOverlap, ReplaceOverlap}, v.Overlap) {
		bad("schedule: overlap: %q is none of %s, %s, %s", v.Overlap, SkipOverlap, AllowOverlap, ReplaceOverlap)
	}
	if v.History < 1 || v.History > MaxHistory {
		bad("schedule: history: %d is not between 1 and %d", v.History, MaxHistory)
	}
	switch next, err := v.NextRun(time.Unix(0, 0)); {
	case err != nil:
		bad("schedule: %w", err)
	case next.IsZero():
		bad("schedule: cron %q names no day that there is", v.Cron)
	}
}

package job

import (
	"strings"
	"testing"
	"time"
)

func TestNextTime(t *testing.T) {
	for _, c := range []struct{ cron, zone, after, want string }{
		{"0 3 * * *", "", "2026-11-21T03:00:00Z", "2026-11-22T03:00:00Z"},
		{"*/15 9-17 * * mon-fri", "", "2026-11-20T17:50:00Z", "2026-11-23T09:00:00Z"},
		{"@monthly", "Asia/Tokyo", "2026-11-21T00:00:00Z", "2026-12-01T00:00:00+09:00"},
		{"0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T03:00:00+02:00"},  // daylight saving time starts at 2:00
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T02:30:00+02:00"}, // 2:30 does not exist on the 29th
		{"0 0 29 2 *", "", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		s := Schedule{Cron: c.cron, TimeZone: c.zone}
		if got, err := s.NextRun(after); err != nil || got.Format(time.RFC3339) != c.want {
			t.Errorf("%s in %q after %s: got %s, %v; want %s", c.cron, c.zone, c.after, got.Format(time.RFC3339), err, c.want)
		}
	}
}

func scheduled(v Schedule) Spec {
	s := Spec{Name: "nightly", Command: []string{"true"}, Schedule: &v}
	s.SetDefaults()
	return s
}

// A schedule that sets neither skips runs that would overlap and keeps three ended runs.
func TestScheduleDefaults(t *testing.T) {
	s := scheduled(Schedule{Cron: "@daily"})
	if want := (Schedule{Cron: "@daily", Overlap: SkipOverlap, History: 3}); *s.Schedule != want {
		t.Errorf("got %+v, want %+v", *s.Schedule, want)
	}
	set := Schedule{Cron: "@daily", Overlap: AllowOverlap, History: 7}
	if s := scheduled(set); *s.Schedule != set {
		t.Errorf("got %+v, want %+v", *s.Schedule, set)
	}
}

func TestValidateAcceptsSchedules(t *testing.T) {
	for name, s := range map[string]Spec{
		"skip":             scheduled(Schedule{Cron: "@daily", Overlap: "skip"}),
		"allow":            scheduled(Schedule{Cron: "@daily", Overlap: "allow"}),
		"replace":          scheduled(Schedule{Cron: "@daily", Overlap: "replace"}),
		"shortest history": scheduled(Schedule{Cron: "@daily", History: 1}),
		"longest history":  scheduled(Schedule{Cron: "@daily", History: MaxHistory}),
		"zone":             scheduled(Schedule{Cron: "0 3 * * *", TimeZone: "Europe/Berlin"}),
		"leap day":         scheduled(Schedule{Cron: "0 0 29 2 *"}),
		"longest name": func() Spec {
			s := scheduled(Schedule{Cron: "@daily"})
			s.Name = strings.Repeat("a", maxScheduleName)
			return s
		}(),
	} {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each mistake in a schedule is reported once, with the keys that it concerns.
func TestValidateRejectsSchedules(t *testing.T) {
	for _, c := range []struct {
		name     string
		schedule Schedule
		change   func(*Spec)
		fields   string
		want     string
	}{
		{"interval", Schedule{Cron: "@every 1h"}, nil, "schedule.cron", `cron "@every 1h" begins with "@every": write five fields`},
		{"zone in the cron text", Schedule{Cron: "TZ=Asia/Tokyo 0 3 * * *"}, nil, "schedule.cron",
			`begins with "TZ=Asia/Tokyo": write five fields such as "0 3 * * *", and the zone as time_zone`},
		{"cron with six fields", Schedule{Cron: "0 0 3 * * *"}, nil, "schedule.cron", "expected exactly 5 fields"},
		{"day that does not exist", Schedule{Cron: "0 0 30 2 *"}, nil, "schedule.cron", "names no day that there is"},
		{"unknown zone", Schedule{Cron: "@daily", TimeZone: "Europe/Atlantis"}, nil, "schedule.time_zone", `time_zone "Europe/Atlantis" is not a time zone`},
		{"zone of the scheduler's host", Schedule{Cron: "@daily", TimeZone: "Local"}, nil, "schedule.time_zone", `time_zone "Local" is not a time zone`},
		{"unknown overlap", Schedule{Cron: "@daily", Overlap: "queue"}, nil, "schedule.overlap", `"queue" is not one of skip, allow, replace`},
		{"negative history", Schedule{Cron: "@daily", History: -1}, nil, "schedule.history", "-1 is not between 1 and 100"},
		{"history above the limit", Schedule{Cron: "@daily", History: MaxHistory + 1}, nil, "schedule.history", "101 is not between 1 and 100"},
		{"service", Schedule{Cron: "@daily"}, func(s *Spec) { s.Service = &Service{} }, "schedule service", "the job is a service"},
		{"dependency", Schedule{Cron: "@daily"}, func(s *Spec) { s.After = []Dependency{{Job: "prepare"}} }, "after schedule",
			"the runs of a schedule wait for no other job"},
		{"long name", Schedule{Cron: "@daily"}, func(s *Spec) { s.Name = strings.Repeat("a", maxScheduleName+1) },
			"name schedule", "name: 50 letters, and a schedule's has 49 at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scheduled(c.schedule)
			if c.change != nil {
				c.change(&s)
			}
			wantMistake(t, collectErrors(s.validateSchedule), c.fields, c.want)
		})
	}
}

// The names of runs of the schedule with the longest name are valid.
func TestRunNames(t *testing.T) {
	name := string(make([]byte, 0, maxScheduleName))
	for range maxScheduleName {
		name += "a"
	}
	run := RunName(name, time.Date(2026, 11, 21, 3, 0, 0, 0, time.FixedZone("", 3600)))
	if want := name + "-20261121-0200"; run != want || !namePattern.MatchString(run) {
		t.Errorf("got %s, want %s", run, want)
	}
	for n, want := range map[int]string{2: name[2:] + "-20261121-0200-2", 100: name[4:] + "-20261121-0200-100"} {
		if got := NumberedRunName(run, n); got != want || !namePattern.MatchString(got) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	s := Spec{Name: name + "a", Command: []string{"true"}, Schedule: &Schedule{Cron: "@daily"}}
	s.SetDefaults()
	if err := s.Validate(); err == nil || namePattern.MatchString(RunName(s.Name, time.Time{})) {
		t.Errorf("%s may be scheduled: %v", s.Name, err)
	}
}

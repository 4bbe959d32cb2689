package job

import (
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

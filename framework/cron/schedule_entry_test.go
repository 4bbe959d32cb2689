package cron

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/job"
)

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse("2 15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return when.AddDate(2026, 0, 0)
}

func nightlySpec(overlap job.OverlapPolicy, history int) job.Spec {
	s := job.Spec{Name: "nightly", Command: []string{"true"}, Schedule: &job.Schedule{Cron: "0 3 * * *", Overlap: overlap, History: history}}
	s.SetDefaults()
	return s
}

// knownJobs are the existing jobs; the value is true if a job has not ended.
type knownJobs map[string]bool

func (j knownJobs) lookUp(name string) (exists, live bool) {
	live, exists = j[name]
	return exists, live
}

// runDueAt calls RunDue at that time and returns the actions as a text.
func runDueAt(t *testing.T, e *ScheduleEntry, j knownJobs, when string) string {
	t.Helper()
	due, err := e.RunDue(parseTime(t, when), j.lookUp)
	if err != nil {
		t.Fatal(err)
	}
	if due == nil {
		return "nothing"
	}
	var did []string
	for _, name := range due.Kill {
		j[name] = false
		did = append(did, "kill "+name)
	}
	for _, name := range due.Forget {
		delete(j, name)
		did = append(did, "forget "+name)
	}
	if due.Submit != nil {
		if due.Submit.Schedule != nil || due.Submit.Validate() != nil {
			t.Errorf("submits %+v", due.Submit)
		}
		j[due.Submit.Name] = true
		e.RecordRun(due)
		did = append(did, "submit "+due.Submit.Name)
	}
	return strings.Join(append(did, e.Note), "; ")
}

func TestRunIsSubmittedWhenDue(t *testing.T) {
	e, j := NewEntry(nightlySpec("", 0), parseTime(t, "1 02:00")), knownJobs{}
	for _, c := range [][2]string{
		{"1 02:59", "nothing"},
		{"1 03:00", "submit nightly-20260101-0300; "},
		{"1 03:00", "nothing"},
		{"1 12:00", "nothing"},
		{"2 03:01", "; passed over at 2026-01-02T03:00:00Z: nightly-20260101-0300 has not ended"},
	} {
		got := strings.TrimPrefix(runDueAt(t, e, j, c[0]), "; ")
		if want := strings.TrimPrefix(c[1], "; "); got != want {
			t.Errorf("at %s: got %q, want %q", c[0], got, want)
		}
	}
	j["nightly-20260101-0300"] = false
	if got := runDueAt(t, e, j, "3 03:00"); got != "submit nightly-20260103-0300; " {
		t.Errorf("the next day: %q", got)
	}
}

// After days without a scheduler only the last missed run is submitted.
func TestOnlyLastMissedRunIsSubmitted(t *testing.T) {
	e := NewEntry(nightlySpec("", 0), parseTime(t, "1 02:00"))
	if got := runDueAt(t, e, knownJobs{}, "9 12:00"); got != "submit nightly-20260109-0300; " {
		t.Errorf("got %q", got)
	}
	if next, err := e.NextDue(); err != nil || !next.Equal(parseTime(t, "10 03:00")) {
		t.Errorf("next is %s, %v", next, err)
	}
}

func TestOverlapPolicies(t *testing.T) {
	for overlap, want := range map[job.OverlapPolicy]string{
		job.AllowOverlap:   "submit nightly-20260102-0300; ",
		job.ReplaceOverlap: "kill nightly-20260101-0300; submit nightly-20260102-0300; ",
	} {
		e, j := NewEntry(nightlySpec(overlap, 0), parseTime(t, "1 02:00")), knownJobs{}
		runDueAt(t, e, j, "1 03:00")
		if got := runDueAt(t, e, j, "2 03:00"); got != want {
			t.Errorf("%s: got %q, want %q", overlap, got, want)
		}
	}
}

// The history limit applies to ended runs; a run that has not ended is kept in addition.
func TestHistoryLimitForgetsOldRuns(t *testing.T) {
	e, j := NewEntry(nightlySpec(job.AllowOverlap, 2), parseTime(t, "1 02:00")), knownJobs{}
	runDueAt(t, e, j, "1 03:00") // this run does not end
	for day := range 4 {
		runDueAt(t, e, j, fmt.Sprintf("%d 03:00", day+2))
		j[e.Runs[len(e.Runs)-1].Job] = false
	}
	if got := runDueAt(t, e, j, "6 03:00"); got != "forget nightly-20260103-0300; submit nightly-20260106-0300; " {
		t.Errorf("got %q", got)
	}
	delete(j, "nightly-20260104-0300") // expired by age
	runDueAt(t, e, j, "7 03:00")
	var names []string
	for _, r := range e.Runs {
		names = append(names, r.Job)
	}
	if diff := cmp.Diff([]string{"nightly-20260101-0300", "nightly-20260105-0300", "nightly-20260106-0300", "nightly-20260107-0300"}, names); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// A rejected run is noted and not retried before the next due time.
func TestRejectedRunIsRecorded(t *testing.T) {
	e := NewEntry(nightlySpec("", 0), parseTime(t, "1 02:00"))
	due, err := e.RunDue(parseTime(t, "1 03:00"), knownJobs{}.lookUp)
	if err != nil {
		t.Fatal(err)
	}
	e.RecordRefusal(due, errors.New("full"))
	if e.Note != "no run at 2026-01-01T03:00:00Z: full" || len(e.Runs) > 0 {
		t.Errorf("got %q, runs %v", e.Note, e.Runs)
	}
	if got := runDueAt(t, e, knownJobs{}, "1 04:00"); got != "nothing" {
		t.Errorf("an hour later: %q", got)
	}
	if got := runDueAt(t, e, knownJobs{}, "2 03:00"); got != "submit nightly-20260102-0300; " || e.Note != "" {
		t.Errorf("the next day: %q", got)
	}
}

// However the clock changes, no due time causes two runs, no run is in the future, and a
// schedule decoded from its document behaves the same.
func TestRunDueInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := nightlySpec(rapid.SampledFrom([]job.OverlapPolicy{job.SkipOverlap, job.AllowOverlap, job.ReplaceOverlap}).Draw(t,
			"overlap"), rapid.IntRange(1, 3).Draw(t, "history"))
		spec.Schedule.Cron = rapid.SampledFrom([]string{"* * * * *", "*/7 3-5 * * *", "0 0 1 * *"}).Draw(t, "cron")
		spec.Schedule.TimeZone = rapid.SampledFrom([]string{"", "Europe/Berlin"}).Draw(t, "zone")
		now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
		e, j, ran := NewEntry(spec, now), knownJobs{}, map[string]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(-int64(2*time.Hour), int64(30*time.Hour)).Draw(t, "pass")))
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			e = &ScheduleEntry{}
			if err := json.Unmarshal(text, e); err != nil {
				t.Fatal(err)
			}
			before := len(e.Runs)
			due, err := e.RunDue(now, j.lookUp)
			if err != nil {
				t.Fatal(err)
			}
			if due == nil {
				continue
			}
			if due.At.After(now) || due.Submit != nil && ran[due.Submit.Name] {
				t.Fatalf("at %s: due %+v", now, due)
			}
			for _, name := range slices.Concat(due.Kill, due.Forget) {
				if _, ok := j[name]; !ok {
					t.Fatalf("job %s does not exist", name)
				}
			}
			for _, name := range due.Forget {
				delete(j, name)
			}
			if due.Submit == nil {
				if len(e.Runs) > before || e.Note == "" {
					t.Fatalf("passed over without a word: %+v", e)
				}
				continue
			}
			e.RecordRun(due)
			ran[due.Submit.Name], j[due.Submit.Name] = true, true
			if rapid.Bool().Draw(t, "ends") {
				j[due.Submit.Name] = false
			}
		}
	})
}

// lastDueTime returns the same time as a linear search, with few calls of next.
func TestLastDueTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := job.Schedule{
			Cron:     rapid.SampledFrom([]string{"* * * * *", "*/7 3-5 * * *", "30 2 * * *", "0 0 1 * *", "@hourly"}).Draw(t, "cron"),
			TimeZone: rapid.SampledFrom([]string{"", "Europe/Berlin"}).Draw(t, "zone"),
		}
		next, err := s.NextRunFunc()
		if err != nil {
			t.Fatal(err)
		}
		looks := 0
		counted := func(after time.Time) time.Time { looks++; return next(after) }
		first := next(time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC))
		now := first.Add(time.Duration(rapid.Int64Range(0, int64(72*time.Hour)).Draw(t, "pass")))
		want := first
		for later := next(want); !later.After(now); later = next(want) {
			want = later
		}
		if got := lastDueTime(counted, first, now); !got.Equal(want) || looks > 20 {
			t.Fatalf("from %s until %s: got %s in %d looks, want %s", first, now, got, looks, want)
		}
	})
}

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

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse("2 15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return when.AddDate(2026, 0, 0)
}

func nightly(overlap job.Overlap, history int) job.Spec {
	s := job.Spec{Name: "nightly", Command: []string{"true"}, Schedule: &job.Schedule{Cron: "0 3 * * *", Overlap: overlap, History: history}}
	s.SetDefaults()
	return s
}

// jobs are those that a test's scheduler knows: whether each lives.
type jobs map[string]bool

func (j jobs) known(name string) (known, live bool) {
	live, known = j[name]
	return known, live
}

// step is a day at that time, and what the schedule does then, in words.
func step(t *testing.T, e *Entry, j jobs, when string) string {
	t.Helper()
	due, err := e.Step(at(t, when), j.known)
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
		e.Ran(due)
		did = append(did, "submit "+due.Submit.Name)
	}
	return strings.Join(append(did, e.Note), "; ")
}

func TestARunWhenItIsDue(t *testing.T) {
	e, j := New(nightly("", 0), at(t, "1 02:00")), jobs{}
	for _, c := range [][2]string{
		{"1 02:59", "nothing"},
		{"1 03:00", "submit nightly-20260101-0300; "},
		{"1 03:00", "nothing"},
		{"1 12:00", "nothing"},
		{"2 03:01", "; passed over at 2026-01-02T03:00:00Z: nightly-20260101-0300 has not ended"},
	} {
		got := strings.TrimPrefix(step(t, e, j, c[0]), "; ")
		if want := strings.TrimPrefix(c[1], "; "); got != want {
			t.Errorf("at %s: got %q, want %q", c[0], got, want)
		}
	}
	j["nightly-20260101-0300"] = false
	if got := step(t, e, j, "3 03:00"); got != "submit nightly-20260103-0300; " {
		t.Errorf("the next day: %q", got)
	}
}

// Days without a scheduler are made up for by one run, the last.
func TestMissedRuns(t *testing.T) {
	e := New(nightly("", 0), at(t, "1 02:00"))
	if got := step(t, e, jobs{}, "9 12:00"); got != "submit nightly-20260109-0300; " {
		t.Errorf("got %q", got)
	}
	if next, err := e.Next(); err != nil || !next.Equal(at(t, "10 03:00")) {
		t.Errorf("next is %s, %v", next, err)
	}
}

func TestOverlap(t *testing.T) {
	for overlap, want := range map[job.Overlap]string{
		job.AllowOverlap:   "submit nightly-20260102-0300; ",
		job.ReplaceOverlap: "kill nightly-20260101-0300; submit nightly-20260102-0300; ",
	} {
		e, j := New(nightly(overlap, 0), at(t, "1 02:00")), jobs{}
		step(t, e, j, "1 03:00")
		if got := step(t, e, j, "2 03:00"); got != want {
			t.Errorf("%s: got %q, want %q", overlap, got, want)
		}
	}
}

// So many runs that have ended stay; one that lives stays beside them.
func TestHistory(t *testing.T) {
	e, j := New(nightly(job.AllowOverlap, 2), at(t, "1 02:00")), jobs{}
	step(t, e, j, "1 03:00") // lives on
	for day := range 4 {
		step(t, e, j, fmt.Sprintf("%d 03:00", day+2))
		j[e.Runs[len(e.Runs)-1].Job] = false
	}
	if got := step(t, e, j, "6 03:00"); got != "forget nightly-20260103-0300; submit nightly-20260106-0300; " {
		t.Errorf("got %q", got)
	}
	delete(j, "nightly-20260104-0300") // by age
	step(t, e, j, "7 03:00")
	var names []string
	for _, r := range e.Runs {
		names = append(names, r.Job)
	}
	if diff := cmp.Diff([]string{"nightly-20260101-0300", "nightly-20260105-0300", "nightly-20260106-0300", "nightly-20260107-0300"}, names); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// What the scheduler refuses is told, and not tried again before the next time.
func TestRefusedRun(t *testing.T) {
	e := New(nightly("", 0), at(t, "1 02:00"))
	due, err := e.Step(at(t, "1 03:00"), jobs{}.known)
	if err != nil {
		t.Fatal(err)
	}
	e.Refused(due, errors.New("full"))
	if e.Note != "no run at 2026-01-01T03:00:00Z: full" || len(e.Runs) > 0 {
		t.Errorf("got %q, runs %v", e.Note, e.Runs)
	}
	if got := step(t, e, jobs{}, "1 04:00"); got != "nothing" {
		t.Errorf("an hour later: %q", got)
	}
	if got := step(t, e, jobs{}, "2 03:00"); got != "submit nightly-20260102-0300; " || e.Note != "" {
		t.Errorf("the next day: %q", got)
	}
}

// However the clock goes, no time brings two runs, no run is of the future,
// and what is read back from its document does the same.
func TestStepHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := nightly(rapid.SampledFrom([]job.Overlap{job.SkipOverlap, job.AllowOverlap, job.ReplaceOverlap}).Draw(t, "overlap"), rapid.IntRange(1, 3).Draw(t, "history"))
		spec.Schedule.Cron = rapid.SampledFrom([]string{"* * * * *", "*/7 3-5 * * *", "0 0 1 * *"}).Draw(t, "cron")
		spec.Schedule.TimeZone = rapid.SampledFrom([]string{"", "Europe/Berlin"}).Draw(t, "zone")
		now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
		e, j, ran := New(spec, now), jobs{}, map[string]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(-int64(2*time.Hour), int64(30*time.Hour)).Draw(t, "pass")))
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			e = &Entry{}
			if err := json.Unmarshal(text, e); err != nil {
				t.Fatal(err)
			}
			before := len(e.Runs)
			due, err := e.Step(now, j.known)
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
					t.Fatalf("%s is not known", name)
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
			e.Ran(due)
			ran[due.Submit.Name], j[due.Submit.Name] = true, true
			if rapid.Bool().Draw(t, "ends") {
				j[due.Submit.Name] = false
			}
		}
	})
}

// The last time is the one that going from time to time finds, in few looks.
func TestLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := job.Schedule{
			Cron:     rapid.SampledFrom([]string{"* * * * *", "*/7 3-5 * * *", "30 2 * * *", "0 0 1 * *", "@hourly"}).Draw(t, "cron"),
			TimeZone: rapid.SampledFrom([]string{"", "Europe/Berlin"}).Draw(t, "zone"),
		}
		next, err := s.Times()
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
		if got := last(counted, first, now); !got.Equal(want) || looks > 20 {
			t.Fatalf("from %s until %s: got %s in %d looks, want %s", first, now, got, looks, want)
		}
	})
}

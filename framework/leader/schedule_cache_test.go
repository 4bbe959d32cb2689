package leader

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/cron"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// stateWithSchedule returns a State with a schedule whose document has about size bytes.
func stateWithSchedule(t testing.TB, size int, now time.Time) *sched.State {
	t.Helper()
	s := frameworktest.ScheduledSpec("nightly", "0 3 * * *")
	s.SetDefaults()
	text, err := json.Marshal(cron.NewEntry(s, now))
	if err != nil {
		t.Fatal(err)
	}
	s.Labels = map[string]string{}
	for left := size - len(text); left > 0; left -= 100 << 10 { // the maximum size of a label
		s.Labels[fmt.Sprintf("k%07d", left)] = strings.Repeat("x", min(left, 100<<10)-14)
	}
	put, err := scheduleDocument(cron.NewEntry(s, now))
	if err != nil {
		t.Fatal(err)
	}
	st := sched.New(sched.SchedulerSettings{}, sched.RecoveredState{})
	st.Step(now, put)
	if st.Document(put.Key) == nil {
		t.Fatalf("a document of %d bytes is not taken", len(put.Value))
	}
	return st
}

// stateWithOtherDocuments returns a State with a schedule and that many other documents.
func stateWithOtherDocuments(t testing.TB, others int) *sched.State {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := stateWithSchedule(t, 1000, now)
	for i := range others {
		st.Step(now, sched.PutDocument{Key: fmt.Sprintf("marathon/app/group/app-%06d", i), Value: []byte("definition")})
	}
	return st
}

// TestScheduleLookupIgnoresOtherDocuments: other documents do not slow down the lookup of
// schedules.
func TestScheduleLookupIgnoresOtherDocuments(t *testing.T) {
	takes := func(others int) float64 {
		st := stateWithOtherDocuments(t, others)
		var a scheduleCache
		least := math.Inf(1)
		for range 5 { // goroutines of earlier tests may also allocate
			least = min(least, testing.AllocsPerRun(10, func() {
				for name := range a.allSchedules(st) {
					if name != "nightly" {
						t.Errorf("%s is a schedule", name)
					}
				}
				if count, size := a.countByOwner(st); count.Total() != 1 || size.Total() == 0 {
					t.Errorf("%d schedules of %d bytes", count.Total(), size.Total())
				}
			}))
		}
		return least
	}
	if without, with := takes(0), takes(5000); with != without {
		t.Errorf("a lookup takes %g allocations with 5000 other documents, and %g without", with, without)
	}
}

func BenchmarkSchedules(b *testing.B) {
	st := stateWithOtherDocuments(b, 20_000)
	var a scheduleCache
	b.ReportAllocs()
	for b.Loop() {
		for range a.allSchedules(st) {
		}
		a.countByOwner(st)
	}
}

// A document is decoded once, until it changes.
func TestScheduleIsDecodedOnce(t *testing.T) {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := stateWithSchedule(t, 1000, now)
	var a scheduleCache
	before := a.findSchedule(st, "nightly")
	for name, p := range a.allSchedules(st) {
		if name != "nightly" || p != before {
			t.Errorf("schedule %s is decoded again", name)
		}
	}
	e := *before.entry
	e.Note = "new"
	put, err := scheduleDocument(&e)
	if err != nil {
		t.Fatal(err)
	}
	st.Step(now, put)
	if got := a.findSchedule(st, "nightly"); got.entry.Note != "new" || before.entry.Note != "" {
		t.Errorf("got the note %q, and %q before", got.entry.Note, before.entry.Note)
	}
	st.Step(now, sched.PutDocument{Key: put.Key})
	if got := a.findSchedule(st, "nightly"); got != nil || len(a.byID) > 0 {
		t.Errorf("one that has ended is %+v", got)
	}
}

// A run that cannot be recorded is not submitted: it would be submitted repeatedly.
func TestUnrecordableRunIsNotSubmitted(t *testing.T) {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := stateWithSchedule(t, 1<<20-20, now)
	b := New(&Loop{}, Config{})
	err := b.Schedules.stepSchedule(st, b.Schedules.cache.findSchedule(st, "nightly").entry, now.Add(2*time.Hour), func(e sched.Event) { t.Errorf("got %T", e) })
	if err == nil || !strings.Contains(err.Error(), "more than 1048576") {
		t.Errorf("got %v", err)
	}
}

// A schedule's document has space for its run, but not for the reason why the run is refused: the actions of the due time
// are nevertheless recorded as done, because they would otherwise be repeated.
func TestRefusalThatDoesNotFitIsRecordedWithoutReason(t *testing.T) {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := sched.New(sched.SchedulerSettings{}, sched.RecoveredState{})
	s := frameworktest.ScheduledSpec("nightly", "0 3 * * *")
	s.SetDefaults()
	s.Schedule.Overlap, s.Env = job.ReplaceOverlap, map[string]string{"DATA": ""}
	s.Role = strings.Repeat("r", 200) // the reason has it
	e := cron.NewEntry(s, now)
	e.Runs = []cron.ScheduledRun{{Job: "nightly-20291231-0300", Due: now}}
	put, err := scheduleDocument(e)
	if err != nil {
		t.Fatal(err)
	}
	e.Spec.Env["DATA"] = strings.Repeat("x", 1<<20-len(put.Value)-150)
	before := frameworktest.JobSpec("nightly-20291231-0300", 1, 0)
	before.SetDefaults()
	st.Step(now, sched.SubmitJob{Spec: before})
	kills, recorded := 0, []byte(nil)
	b := New(&Loop{}, Config{OwnerMaySubmit: func(string, string) bool { return false }})
	if err := b.Schedules.stepSchedule(st, e, now.Add(2*time.Hour), func(e sched.Event) {
		switch e := e.(type) {
		case sched.KillJob:
			kills++
		case sched.PutDocument:
			recorded = e.Value
		case sched.SubmitJob:
			t.Errorf("%s is submitted", e.Spec.Name)
		}
	}); err != nil {
		t.Error(err)
	}
	var after cron.ScheduleEntry
	if err := json.Unmarshal(recorded, &after); err != nil || kills != 1 || !after.Seen.Equal(now.Add(2*time.Hour)) || after.Note != "" || len(after.Runs) != 1 {
		t.Errorf("%d kills; recorded %d bytes, %v: seen %s, note %q, runs %v", kills, len(recorded), err, after.Seen, after.Note, after.Runs)
	}
}

// A job of another owner with the name of a run does not belong to the schedule.
func TestScheduleIgnoresJobOfAnotherOwner(t *testing.T) {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := sched.New(sched.SchedulerSettings{}, sched.RecoveredState{})
	s := frameworktest.ScheduledSpec("nightly", "0 3 * * *")
	s.SetDefaults()
	s.Schedule.Overlap, s.Owner = job.ReplaceOverlap, "alice"
	e := cron.NewEntry(s, now)
	e.Runs = []cron.ScheduledRun{{Job: "nightly-20291231-0300", Due: now}}
	other := frameworktest.JobSpec("nightly-20291231-0300", 1, 0)
	other.SetDefaults()
	other.Owner = "bob"
	st.Step(now, sched.SubmitJob{Spec: other})
	submitted := false
	if err := New(&Loop{}, Config{}).Schedules.stepSchedule(st, e, now.Add(2*time.Hour), func(e sched.Event) {
		if kill, ok := e.(sched.KillJob); ok {
			t.Errorf("bob's job %s is killed", kill.Job)
		}
		_, is := e.(sched.SubmitJob)
		submitted = submitted || is
	}); err != nil || !submitted {
		t.Errorf("submitted %v, %v", submitted, err)
	}
}

// A schedule that an earlier version recorded with a label of Marathon apps submits no job, because that job would be an
// instance of the app.
func TestScheduleWithReservedLabelSubmitsNothing(t *testing.T) {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := sched.New(sched.SchedulerSettings{}, sched.RecoveredState{})
	s := frameworktest.ScheduledSpec("nightly", "0 3 * * *")
	s.SetDefaults()
	s.Labels = map[string]string{job.AppLabel: "/prod/api"}
	recorded := ""
	if err := New(&Loop{}, Config{}).Schedules.stepSchedule(st, cron.NewEntry(s, now), now.Add(2*time.Hour), func(e sched.Event) {
		switch e := e.(type) {
		case sched.SubmitJob:
			t.Errorf("%s is submitted", e.Spec.Name)
		case sched.PutDocument:
			recorded = string(e.Value)
		}
	}); err != nil || !strings.Contains(recorded, "reserved for the scheduler") {
		t.Errorf("recorded %s, %v", recorded, err)
	}
}

// TestScheduleRunsStartUnderFreeNames checks that jobs with the names of runs, which the user submitted first, do not keep a
// schedule from running. Jobs of other users do not matter.
func TestScheduleRunsStartUnderFreeNames(t *testing.T) {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := sched.New(sched.SchedulerSettings{}, sched.RecoveredState{})
	s := frameworktest.ScheduledSpec("nightly", "0 3 * * *")
	s.SetDefaults()
	s.Owner = "bob"
	for name, owner := range map[string]string{"nightly-20300101-0300": "bob", "nightly-20300101-0300-2": "alice"} {
		other := frameworktest.JobSpec(name, 1, 0)
		other.SetDefaults()
		other.Owner = owner
		st.Step(now, sched.SubmitJob{Spec: other})
	}
	var run, recorded string
	if err := New(&Loop{}, Config{}).Schedules.stepSchedule(st, cron.NewEntry(s, now), now.Add(2*time.Hour), func(e sched.Event) {
		switch e := e.(type) {
		case sched.SubmitJob:
			run = e.Spec.Name
		case sched.PutDocument:
			recorded = string(e.Value)
		}
	}); err != nil || run != "nightly-20300101-0300-2" || !strings.Contains(recorded, run) {
		t.Errorf("submitted %q, %v; recorded %s", run, err, recorded)
	}
}

func TestScheduleBounds(t *testing.T) {
	b, now := New(&Loop{}, Config{}), time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	s := frameworktest.ScheduledSpec("new", "0 3 * * *")
	s.SetDefaults()
	for _, c := range []struct {
		size, there int
		want        string
	}{
		{1000, 16<<20 - 1000, ""},
		{1000, 16<<20 - 999, "1000 more would pass the limit of 16777216"},
		{64<<10 + 1, 0, `schedule "new" has 65537 bytes, more than 65536`},
	} {
		st := sched.New(sched.SchedulerSettings{}, sched.RecoveredState{})
		for i := 0; c.there > 0; i++ {
			n := min(c.there, 1<<20)
			st.Step(now, sched.PutDocument{Key: fmt.Sprint(schedulePrefix, i), Value: make([]byte, n)})
			c.there -= n
		}
		err := b.Schedules.checkRecord(st, &s, sched.PutDocument{Key: schedulePrefix + "new", Value: make([]byte, c.size)})
		if (err == nil) != (c.want == "") || err != nil && (frameworktest.StatusOf(err) != 422 || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d bytes: got %v, want %q", c.size, err, c.want)
		}
	}
}

func TestDamagedScheduleIsReported(t *testing.T) {
	p := decodeSchedule([]byte("{}"))
	if !errors.Is(p.err, request.ErrScheduleDamaged) || p.err.Error() != "it is damaged: end it and submit it again (it has no schedule)" {
		t.Errorf("got %v", p.err)
	}
}

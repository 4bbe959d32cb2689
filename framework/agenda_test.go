package framework

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/cron"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// planned is a State with a schedule whose document has about that many bytes.
func planned(t testing.TB, size int, now time.Time) *sched.State {
	t.Helper()
	s := scheduled("nightly", "0 3 * * *")
	s.SetDefaults()
	text, err := json.Marshal(cron.New(s, now))
	if err != nil {
		t.Fatal(err)
	}
	s.Labels = map[string]string{}
	for left := size - len(text); left > 0; left -= 100 << 10 { // a label's bound
		s.Labels[fmt.Sprintf("k%07d", left)] = strings.Repeat("x", min(left, 100<<10)-14)
	}
	put, err := putSchedule(cron.New(s, now))
	if err != nil {
		t.Fatal(err)
	}
	st := sched.New(sched.Config{}, sched.Past{})
	st.Step(now, put)
	if st.Document(put.Key) == nil {
		t.Fatalf("a document of %d bytes is not taken", len(put.Value))
	}
	return st
}

// crowded is planned with so many documents of others.
func crowded(t testing.TB, others int) *sched.State {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := planned(t, 1000, now)
	for i := range others {
		st.Step(now, sched.Put{Key: fmt.Sprintf("marathon/app/group/app-%06d", i), Value: []byte("definition")})
	}
	return st
}

// TestAgendaLeavesOthersAlone: what others have put costs the schedules
// nothing.
func TestAgendaLeavesOthersAlone(t *testing.T) {
	takes := func(others int) float64 {
		st := crowded(t, others)
		var a agenda
		least := math.Inf(1)
		for range 5 { // what other tests have left to end allocates too
			least = min(least, testing.AllocsPerRun(10, func() {
				for name := range a.all(st) {
					if name != "nightly" {
						t.Errorf("%s is a schedule", name)
					}
				}
				if count, size := scheduleSizes(st); count != 1 || size == 0 {
					t.Errorf("%d schedules of %d bytes", count, size)
				}
			}))
		}
		return least
	}
	if without, with := takes(0), takes(5000); with != without {
		t.Errorf("it takes %g allocations with 5000 documents of others, and %g without", with, without)
	}
}

func BenchmarkAgenda(b *testing.B) {
	st := crowded(b, 20_000)
	var a agenda
	b.ReportAllocs()
	for b.Loop() {
		for range a.all(st) {
		}
		scheduleSizes(st)
	}
}

// A document is decoded once, until it is another.
func TestAgendaRemembers(t *testing.T) {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := planned(t, 1000, now)
	var a agenda
	before := a.one(st, "nightly")
	for name, p := range a.all(st) {
		if name != "nightly" || p != before {
			t.Errorf("schedule %s is decoded again", name)
		}
	}
	e := *before.entry
	e.Note = "new"
	put, err := putSchedule(&e)
	if err != nil {
		t.Fatal(err)
	}
	st.Step(now, put)
	if got := a.one(st, "nightly"); got.entry.Note != "new" || before.entry.Note != "" {
		t.Errorf("got the note %q, and %q before", got.entry.Note, before.entry.Note)
	}
	st.Step(now, sched.Put{Key: put.Key})
	if got := a.one(st, "nightly"); got != nil || len(a.plans) > 0 {
		t.Errorf("one that has ended is %+v", got)
	}
}

// What cannot be recorded is not done: it would be done at each look.
func TestRunThatCannotBeNoted(t *testing.T) {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := planned(t, 1<<20-20, now)
	b := &leader{}
	err := b.stepSchedule(st, b.agenda.one(st, "nightly").entry, now.Add(2*time.Hour), func(e sched.Event) { t.Errorf("got %T", e) })
	if err == nil || !strings.Contains(err.Error(), "more than 1048576") {
		t.Errorf("got %v", err)
	}
}

// A job of another owner that has the name of a run is none of the schedule's.
func TestAnothersRun(t *testing.T) {
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	st := sched.New(sched.Config{}, sched.Past{})
	s := scheduled("nightly", "0 3 * * *")
	s.SetDefaults()
	s.Schedule.Overlap, s.Owner = job.ReplaceOverlap, "alice"
	e := cron.New(s, now)
	e.Runs = []cron.Run{{Job: "nightly-20291231-0300", Due: now}}
	other := spec("nightly-20291231-0300", 1, 0)
	other.SetDefaults()
	other.Owner = "bob"
	st.Step(now, sched.Submit{Spec: other})
	submitted := false
	if err := (&leader{}).stepSchedule(st, e, now.Add(2*time.Hour), func(e sched.Event) {
		if kill, ok := e.(sched.Kill); ok {
			t.Errorf("bob's job %s is killed", kill.Job)
		}
		_, is := e.(sched.Submit)
		submitted = submitted || is
	}); err != nil || !submitted {
		t.Errorf("submitted %v, %v", submitted, err)
	}
}

func TestScheduleBounds(t *testing.T) {
	b, now := &leader{}, time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	s := scheduled("new", "0 3 * * *")
	s.SetDefaults()
	for _, c := range []struct {
		size, there int
		want        string
	}{
		{1000, 16<<20 - 1000, ""},
		{1000, 16<<20 - 999, "schedules would have 16777217 bytes together, more than 16777216"},
		{64<<10 + 1, 0, `schedule "new" has 65537 bytes, more than 65536`},
	} {
		st := sched.New(sched.Config{}, sched.Past{})
		for i := 0; c.there > 0; i++ {
			n := min(c.there, 1<<20)
			st.Step(now, sched.Put{Key: fmt.Sprint(schedulePrefix, i), Value: make([]byte, n)})
			c.there -= n
		}
		err := b.admitSchedule(st, cron.New(s, now), sched.Put{Key: schedulePrefix + "new", Value: make([]byte, c.size)})
		if (err == nil) != (c.want == "") || err != nil && (statusOf(err) != 422 || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d bytes: got %v, want %q", c.size, err, c.want)
		}
	}
}

const ownersFile = `permissions:
- {may: submit, roles: [research], users: [alice]}
- {may: operate, roles: [/], users: [ops]}
- {may: submit, roles: [prod], users: [web]}
jobs:
- {roles: [/], images: [debian], networks: [host], without_image: true}
`

// owned starts a scheduler with that file, which speaks TLS.
func owned(t *testing.T, g *guarded, clock func() time.Time) (*instance, string) {
	t.Helper()
	made, err := tokens()
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	fmt.Fprintln(&file, "tokens:")
	for name, m := range made {
		fmt.Fprintf(&file, "- {name: %s, hash: '%s'}\n", name, m[1])
	}
	file.WriteString(ownersFile)
	g.write(t, file.String())
	roles := rolesFile(t, "research: {}\nprod: {}\n")
	return start(t, mesostest.NewCluster(t, 1), Config{Clock: clock, JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: roles, API: g.API}, client.Trusting(g.CAFile)), file.String()
}

// A schedule does nothing for an owner who may submit no more, and says so.
func TestScheduleOfOneWhoMayNoMore(t *testing.T) {
	g := newGuarded(t)
	var now atomic.Int64
	now.Store(time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC).Unix())
	in, file := owned(t, &g, func() time.Time { return time.Unix(now.Load(), 0) })
	ctx := long(t)
	alice, ops := g.as(t, "alice", in), g.as(t, "ops", in)
	s := scheduled("nightly", "0 3 * * *")
	s.Role = "research"
	if _, err := alice.AddSchedule(ctx, s); err != nil {
		t.Fatal(err)
	}
	g.write(t, strings.Replace(file, "users: [alice]", "users: [web]", 1))
	if err := in.Reload(); err != nil {
		t.Fatal(err)
	}
	now.Add(2 * 3600)
	in.backend().(*leader).runDue(ctx)
	view, err := ops.Schedule(ctx, "nightly")
	if err != nil || !strings.Contains(view.Note, "alice may submit to role research no more") || len(view.Runs) > 0 {
		t.Errorf("got %+v, %v", view, err)
	}
	if jobs, err := ops.Jobs(ctx); err != nil || len(jobs) > 0 {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
	in.end(t)
}

// Who may not see a job learns nothing of it by waiting for it.
func TestAfterAHiddenJob(t *testing.T) {
	g := newGuarded(t)
	in, _ := owned(t, &g, nil)
	ctx := long(t)
	hidden := spec("merger-acme", 1, 8)
	hidden.Role = "research"
	if _, err := g.as(t, "alice", in).Submit(ctx, hidden); err != nil {
		t.Fatal(err)
	}
	web := g.as(t, "web", in)
	for _, name := range []string{"merger-acme", "merger-acmf", "merger-none"} {
		s := spec("probe", 1, 0)
		s.Role, s.After = "prod", []job.Dependency{{Job: name}}
		_, err := web.Submit(ctx, s)
		if want := fmt.Sprintf("after: there is no job %q: submit it first", name); statusOf(err) != http.StatusUnprocessableEntity || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	s := spec("probe", 1, 0)
	s.Role, s.After = "prod", []job.Dependency{{Job: "merger-acmf"}}
	if _, err := g.as(t, "ops", in).Submit(ctx, s); err == nil || !strings.Contains(err.Error(), `did you mean "merger-acme"?`) {
		t.Errorf("who sees it: %v", err)
	}
	in.end(t)
}

// A damaged schedule leaves the others alone, and an operator of all roles
// ends it.
func TestDamagedScheduleAmongOthers(t *testing.T) {
	g := newGuarded(t)
	in, _ := owned(t, &g, nil)
	ctx := long(t)
	alice, ops := g.as(t, "alice", in), g.as(t, "ops", in)
	add := func(name string) {
		t.Helper()
		s := scheduled(name, "0 3 * * *")
		s.Role = "research"
		if _, err := alice.AddSchedule(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	add("before")
	if err := in.backend().(*leader).try(ctx, func(_ *sched.State, apply func(sched.Event)) error {
		apply(sched.Put{Key: schedulePrefix + "bad", Value: []byte("{}")})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	add("after")
	if list, err := alice.Schedules(ctx); err != nil || len(list) != 2 {
		t.Errorf("got %+v, %v; want two", list, err)
	}
	if err := alice.EndSchedule(ctx, "bad"); statusOf(err) != http.StatusForbidden {
		t.Errorf("alice ends it: %v", err)
	}
	if err := ops.EndSchedule(ctx, "bad"); err != nil {
		t.Error(err)
	}
	in.end(t)
}

func TestDamagedScheduleIsTold(t *testing.T) {
	p := readPlan([]byte("{}"))
	if !errors.Is(p.err, api.ErrDamaged) || p.err.Error() != "it is damaged: end it and submit it again (it says no time)" {
		t.Errorf("got %v", p.err)
	}
}

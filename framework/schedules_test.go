package framework

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/framework/journal"
	"mesos-gpu/job"
)

func scheduled(name, cron string) job.Spec {
	s := spec(name, 1, 0)
	s.Schedule = &job.Schedule{Cron: cron}
	return s
}

// awaitJobs reads events until there are jobs of these names.
func awaitJobs(t *testing.T, in *instance, names ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	for e, err := range in.Events(within(t), "") {
		if err != nil {
			t.Fatal(err)
		}
		if delete(missing, e.Job); len(missing) == 0 {
			return
		}
	}
	t.Fatalf("there are no jobs %v", missing)
}

// A schedule outlives its scheduler. The next one makes up for what was due
// meanwhile by one job, and records that with the job.
func TestSchedules(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	in := start(t, c, Config{JournalPath: path, Clock: func() time.Time { return now }})
	ctx := within(t)
	view, err := in.AddSchedule(ctx, scheduled("nightly", "0 3 * * *"))
	if err != nil {
		t.Fatal(err)
	}
	if want := now.Add(time.Hour); !view.Next.Equal(want) || !view.Created.Equal(now) || len(view.Runs) != 0 {
		t.Errorf("got %+v, want the first run at %s", view, want)
	}
	if _, err := in.AddSchedule(ctx, scheduled("weekly", "@weekly")); err != nil {
		t.Fatal(err)
	}
	in.end(t)

	later := now.Add(49*time.Hour + 30*time.Minute)
	in = start(t, c, Config{JournalPath: path, Clock: func() time.Time { return later }})
	awaitJobs(t, in, "nightly-20300103-0300")
	in.end(t)

	in = start(t, c, Config{JournalPath: path, Clock: func() time.Time { return later.Add(time.Minute) }})
	jobs, err := in.Jobs(ctx)
	if err != nil || len(jobs) != 1 || jobs[0].Spec.Schedule != nil {
		t.Errorf("jobs %+v, %v; want one", jobs, err)
	}
	got, err := in.Schedules(ctx)
	if err != nil || len(got) != 2 {
		t.Fatalf("schedules %+v, %v; want two", got, err)
	}
	if diff := cmp.Diff([]api.ScheduledRun{{Job: "nightly-20300103-0300", Due: now.Add(49 * time.Hour)}}, got[0].Runs); diff != "" || got[1].Spec.Name != "weekly" || len(got[1].Runs) > 0 {
		t.Errorf("schedules %+v; runs (-want +got):\n%s", got, diff)
	}
	if err := in.EndSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"nightly": http.StatusNotFound, "weekly": 0} {
		if _, err := in.Schedule(ctx, name); statusOf(err) != want {
			t.Errorf("schedule %s: %v, want status %d", name, err, want)
		}
	}
	if _, err := in.Job(ctx, "nightly-20300103-0300"); err != nil {
		t.Errorf("the job of a schedule that has ended: %v", err)
	}
}

func statusOf(err error) int {
	var p *api.Problem
	if errors.As(err, &p) {
		return p.Status
	}
	return 0
}

func TestScheduleRefusals(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	in := run(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := within(t)
	for _, err := range []error{second(in.AddSchedule(ctx, scheduled("twice", "@daily"))), second(in.Submit(ctx, spec("runs", 1, 0)))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := scheduled("elsewhere", "@daily")
	elsewhere.Role = "nobody"
	for _, r := range []struct {
		name   string
		got    error
		status int
		want   string
	}{
		{"of the name of another", second(in.AddSchedule(ctx, scheduled("twice", "@daily"))), 409, `schedule "twice" is there already`},
		{"of the name of a job", second(in.AddSchedule(ctx, scheduled("runs", "@daily"))), 409, `job "runs" is`},
		{"of no role", second(in.AddSchedule(ctx, elsewhere)), 422, `role "nobody"`},
		{"of a type that nobody has", second(in.AddSchedule(ctx, func() job.Spec {
			s := scheduled("typed", "@daily")
			s.Request = spec("", 1, 1, "V101").Request
			return s
		}())), 422, "V101"},
		{"without a schedule", second(in.AddSchedule(ctx, spec("once", 1, 0))), 422, "schedule: say when"},
		{"as a job", second(in.Submit(ctx, scheduled("job", "@daily"))), 422, "submit it as such, to /v1/schedules"},
		{"without a time", second(in.AddSchedule(ctx, scheduled("never", "0 0 30 2 *"))), 422, "names no day that there is"},
		{"end of none", in.EndSchedule(ctx, "none"), 404, `there is no schedule "none"`},
	} {
		if statusOf(r.got) != r.status || !strings.Contains(r.got.Error(), r.want) {
			t.Errorf("%s: got %v, want status %d and %q", r.name, r.got, r.status, r.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A schedule that cannot be read stops no other, and can be ended.
func TestDamagedSchedule(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	store, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Commit(context.Background(), journal.Change{Documents: map[string][]byte{schedulePrefix + "bad": []byte("{")}}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	in := run(t, c, path)
	ctx := within(t)
	if _, err := in.Schedule(ctx, "bad"); err == nil || !strings.Contains(err.Error(), `read schedule "bad": it is damaged`) {
		t.Errorf("got %v", err)
	}
	if err := in.EndSchedule(ctx, "bad"); err != nil {
		t.Fatal(err)
	}
	if got, err := in.Schedules(ctx); err != nil || len(got) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestJobsAfterJobs: what a job has waited for is in the journal with it.
func TestJobsAfterJobs(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := run(t, c, path)
	ctx := within(t)
	next := spec("train", 1, 0)
	next.After = []job.Dependency{{Job: "prepare"}}
	if _, err := in.Submit(ctx, next); statusOf(err) != 422 || !strings.Contains(err.Error(), `after: there is no job "prepare"`) {
		t.Errorf("got %v", err)
	}
	if _, err := in.Submit(ctx, spec("prepare", 1, 0)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "prepare", job.Running) // and there is a connection to the master
	view, err := in.Submit(ctx, next)
	if err != nil || !strings.Contains(view.Waits, "job prepare to finish; it is ") {
		t.Fatalf("it waits for %q, %v", view.Waits, err)
	}
	in.end(t)

	in = run(t, c, path)
	prepare := awaitState(t, in, "prepare", job.Running)
	if view, err := in.Job(ctx, "train"); err != nil || view.State != job.Waiting {
		t.Errorf("train is %s while prepare runs, %v", view.State, err)
	}
	c.End(prepare.Tasks[0].ID, mesos.TASK_FINISHED, "", "0")
	view = awaitState(t, in, "train", job.Running)
	if diff := cmp.Diff([]job.Dependency{{Job: "prepare", Met: true}}, view.Spec.After); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	in.end(t)
}

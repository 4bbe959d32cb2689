package framework

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/cron"
	"mesos-gpu/framework/journal"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// awaitJobs reads events until jobs with these names exist.
func awaitJobs(t *testing.T, in *testInstance, names ...string) {
	t.Helper()
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	for e, err := range in.StreamEvents(frameworktest.Timeout(t), "") {
		if err != nil {
			t.Fatal(err)
		}
		if delete(missing, e.Job); len(missing) == 0 {
			return
		}
	}
	t.Fatalf("there are no jobs %v", missing)
}

// A schedule survives a restart. The next scheduler makes up for missed due times with
// one job, and records that together with the job.
func TestSchedulesSurviveRestart(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	in := startInstance(t, c, SchedulerConfig{JournalPath: path, Clock: func() time.Time { return now }})
	ctx := frameworktest.Timeout(t)
	view, err := in.AddSchedule(ctx, frameworktest.ScheduledSpec("nightly", "0 3 * * *"))
	if err != nil {
		t.Fatal(err)
	}
	if want := now.Add(time.Hour); !view.NextRun.Equal(want) || !view.Created.Equal(now) || len(view.Runs) != 0 {
		t.Errorf("got %+v, want the first run at %s", view, want)
	}
	if _, err := in.AddSchedule(ctx, frameworktest.ScheduledSpec("weekly", "@weekly")); err != nil {
		t.Fatal(err)
	}
	in.stopAndWait(t)

	later := now.Add(49*time.Hour + 30*time.Minute)
	in = startInstance(t, c, SchedulerConfig{JournalPath: path, Clock: func() time.Time { return later }})
	awaitJobs(t, in, "nightly-20300103-0300")
	in.stopAndWait(t)

	in = startInstance(t, c, SchedulerConfig{JournalPath: path, Clock: func() time.Time { return later.Add(time.Minute) }})
	jobs, err := in.ListJobs(ctx)
	if err != nil || len(jobs) != 1 || jobs[0].Spec.Schedule != nil {
		t.Errorf("jobs %+v, %v; want one", jobs, err)
	}
	got, err := in.ListSchedules(ctx)
	if err != nil || len(got) != 2 {
		t.Fatalf("schedules %+v, %v; want two", got, err)
	}
	if diff := cmp.Diff([]api.ScheduledRun{{Job: "nightly-20300103-0300", Due: now.Add(49 * time.Hour)}}, got[0].Runs); diff != "" ||
		got[1].Spec.Name != "weekly" || len(got[1].Runs) > 0 {
		t.Errorf("schedules %+v; runs (-want +got):\n%s", got, diff)
	}
	if err := in.EndSchedule(ctx, "nightly"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"nightly": http.StatusNotFound, "weekly": 0} {
		if _, err := in.GetSchedule(ctx, name); frameworktest.StatusOf(err) != want {
			t.Errorf("schedule %s: %v, want status %d", name, err, want)
		}
	}
	if _, err := in.GetJob(ctx, "nightly-20300103-0300"); err != nil {
		t.Errorf("the job of a schedule that has ended: %v", err)
	}
}

func TestScheduleRefusals(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := frameworktest.Timeout(t)
	for _, err := range []error{
		errorOf(in.AddSchedule(ctx, frameworktest.ScheduledSpec("twice", "@daily"))),
		errorOf(in.SubmitJob(ctx, frameworktest.JobSpec("runs", 1, 0))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := frameworktest.ScheduledSpec("elsewhere", "@daily")
	elsewhere.Role = "unknown"
	for _, r := range []struct {
		name   string
		got    error
		status int
		want   string
	}{
		{"of the name of another", errorOf(in.AddSchedule(ctx, frameworktest.ScheduledSpec("twice", "@daily"))), 409, `schedule "twice" already exists`},
		{"of the name of a job", errorOf(in.AddSchedule(ctx, frameworktest.ScheduledSpec("runs", "@daily"))), 409, `job "runs" is`},
		{"of no role", errorOf(in.AddSchedule(ctx, elsewhere)), 422, `role "unknown"`},
		{"of a type that unknown has", errorOf(in.AddSchedule(ctx, func() job.Spec {
			s := frameworktest.ScheduledSpec("typed", "@daily")
			s.Request = frameworktest.JobSpec("", 1, 1, "V101").Request
			return s
		}())), 422, "V101"},
		{"without a schedule", errorOf(in.AddSchedule(ctx, frameworktest.JobSpec("once", 1, 0))), 422, "schedule: a time is required"},
		{"as a job", errorOf(in.SubmitJob(ctx, frameworktest.ScheduledSpec("job", "@daily"))), 422, "submit it as such, to /v1/schedules"},
		{"without a time", errorOf(in.AddSchedule(ctx, frameworktest.ScheduledSpec("never", "0 0 30 2 *"))), 422, "names no day that there is"},
		{"end of none", in.EndSchedule(ctx, "none"), 404, `there is no schedule "none"`},
	} {
		if frameworktest.StatusOf(r.got) != r.status || !strings.Contains(r.got.Error(), r.want) {
			t.Errorf("%s: got %v, want status %d and %q", r.name, r.got, r.status, r.want)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// A schedule that cannot be read does not affect others and can be ended.
func TestDamagedScheduleCanBeEnded(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	store, err := journal.OpenBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Commit(context.Background(), journal.Change{Documents: map[string][]byte{"schedule/bad": []byte("{")}}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	in := startWithJournal(t, c, path)
	ctx := frameworktest.Timeout(t)
	if _, err := in.GetSchedule(ctx, "bad"); err == nil || !strings.Contains(err.Error(), `read schedule "bad": it is damaged`) {
		t.Errorf("got %v", err)
	}
	if err := in.EndSchedule(ctx, "bad"); err != nil {
		t.Fatal(err)
	}
	if got, err := in.ListSchedules(ctx); err != nil || len(got) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A schedule with an owner that an earlier release recorded by its name is found by its owner, keeps the owner from another one
// of the name, and is recorded by name and owner at its next run.
func TestSchedulesOfEarlierReleasesHaveOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	now := time.Date(2030, 1, 1, 2, 0, 0, 0, time.UTC)
	s := frameworktest.ScheduledSpec("nightly", "0 3 * * *")
	s.SetDefaults()
	s.Owner = "alice"
	text, err := json.Marshal(cron.NewEntry(s, now))
	if err != nil {
		t.Fatal(err)
	}
	store, err := journal.OpenBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Commit(context.Background(), journal.Change{Documents: map[string][]byte{"schedule/nightly": text}}); err != nil || store.Close() != nil {
		t.Fatal(err)
	}
	in := startInstance(t, mesostest.NewCluster(t, 2), SchedulerConfig{JournalPath: path, Clock: func() time.Time { return now.Add(90 * time.Minute) }})
	awaitJobs(t, in, "nightly-20300101-0300")
	ctx := frameworktest.Timeout(t)
	if list, err := in.ListSchedules(ctx); err != nil || len(list) != 1 || len(list[0].Runs) != 1 {
		t.Errorf("the schedules are %+v, %v", list, err)
	}
	if view, err := in.GetSchedule(ctx, "alice/nightly"); err != nil || view.Spec.Owner != "alice" {
		t.Errorf("got %+v, %v", view.Spec, err)
	}
	if _, err := in.AddSchedule(ctx, frameworktest.ScheduledSpec("nightly", "0 4 * * *")); err != nil { // without an owner
		t.Error(err)
	}
	if view, err := in.GetSchedule(ctx, "nightly"); err != nil || view.Spec.Owner != "" {
		t.Errorf("got %+v, %v", view.Spec, err)
	}
	if err := in.EndSchedule(ctx, "alice/nightly"); err != nil {
		t.Error(err)
	}
	in.stopAndWait(t)
}

// TestJobDependenciesSurviveRestart: the journal contains which of a job's dependencies are met.
func TestJobDependenciesSurviveRestart(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	ctx := frameworktest.Timeout(t)
	next := frameworktest.JobSpec("train", 1, 0)
	next.After = []job.Dependency{{Job: "prepare"}}
	if _, err := in.SubmitJob(ctx, next); frameworktest.StatusOf(err) != 422 || !strings.Contains(err.Error(), `after: there is no job "prepare"`) {
		t.Errorf("got %v", err)
	}
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("prepare", 1, 0)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "prepare", job.Running) // now the scheduler is also connected to the master
	view, err := in.SubmitJob(ctx, next)
	if err != nil || !strings.Contains(view.WaitReason, "job prepare to finish; it is ") {
		t.Fatalf("the job waits for %q, %v", view.WaitReason, err)
	}
	in.stopAndWait(t)

	in = startWithJournal(t, c, path)
	prepare := awaitState(t, in, "prepare", job.Running)
	if view, err := in.GetJob(ctx, "train"); err != nil || view.State != job.Waiting {
		t.Errorf("train is %s while prepare runs, %v", view.State, err)
	}
	c.EndTask(prepare.Tasks[0].ID, mesos.TASK_FINISHED, "", "0")
	view = awaitState(t, in, "train", job.Running)
	if diff := cmp.Diff([]job.Dependency{{Job: "prepare", Run: "prepare@1", Met: true}}, view.Spec.After); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
	in.stopAndWait(t)
}

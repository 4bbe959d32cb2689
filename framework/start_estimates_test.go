package framework

import (
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestEstimatedStarts: the queue and a waiting job have an estimated start with its bounds, which follows from how long
// similar jobs ran, also after a restart, and a job can be asked when it would start without submitting it.
func TestEstimatedStarts(t *testing.T) {
	cfg := SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), Sched: sched.SchedulerSettings{PredictRunTimes: true}}
	cluster := mesostest.NewCluster(t, 1)
	in := startInstance(t, cluster, cfg)
	ctx := longTimeout(t)
	submit := func(name string, runs time.Duration) {
		t.Helper()
		spec := frameworktest.JobSpec(name, 1, 1)
		spec.RunTime = runs
		if _, err := in.Client.SubmitJob(ctx, spec); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		var view api.JobView
		awaitCondition(t, "the waiting job has an estimated start", func() (right bool) {
			var err error
			view, err = in.Client.GetJob(ctx, "second")
			return err == nil && view.Start != nil
		})
		if wait := time.Until(view.Start.Expected); wait < 50*time.Minute || wait > time.Hour+time.Minute {
			t.Errorf("the job starts in %s, want about an hour, when the first one ends", wait)
		}
		for _, r := range []api.TimeRange{view.Start.Within50, view.Start.Within90} {
			if view.Start.Expected.Before(r.From) || view.Start.Expected.After(r.To) {
				t.Errorf("%s is not between %s and %s", view.Start.Expected, r.From, r.To)
			}
		}
		queue, err := in.Client.ListQueue(ctx)
		if err != nil || len(queue) != 1 || queue[0].Start == nil {
			t.Errorf("the queue is %+v, %v", queue, err)
		}
		checked, err := in.Client.ValidateJob(ctx, frameworktest.JobSpec("third", 1, 1), true)
		if err != nil || checked.Start == nil || checked.Start.Expected.Before(view.Start.Expected) {
			t.Errorf("a third job would start %+v, %v, want after the second one", checked.Start, err)
		}
		if checked, err := in.Client.ValidateJob(ctx, frameworktest.JobSpec("third", 1, 1), false); err != nil || checked.Start != nil {
			t.Errorf("without asking for it, the estimate is %+v, %v", checked.Start, err)
		}
	}
	submit("first", time.Hour)
	awaitState(t, in, "first", job.Running)
	submit("second", time.Hour)
	check()
	in.stopAndWait(t)
	in = startInstance(t, cluster, cfg)
	awaitState(t, in, "first", job.Running)
	check()
}

package framework

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestTaskUnknownToMaster: the master forgets a running task and offers its only GPU. The scheduler starts no other task there,
// gives the reason, logs a warning and counts the offer. The task can be killed, although only a SHUTDOWN of its executor
// reaches it, and the next task then gets the GPU.
func TestTaskUnknownToMaster(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	log, logged := logrustest.NewNullLogger()
	in := startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), Log: log})
	ctx := frameworktest.Timeout(t)
	submit := func(name string) {
		t.Helper()
		if _, err := in.SubmitJob(ctx, frameworktest.JobSpec(name, 1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	submit("train")
	id := awaitState(t, in, "train", job.Running).Tasks[0].ID
	c.ForgetTask(id)
	submit("next")
	c.SendOffer()
	var next api.JobView
	awaitCondition(t, "the offer of GPU-0 is answered", func() (answered bool) {
		var err error
		next, err = in.GetJob(ctx, "next")
		return err == nil && (next.State == job.Running || strings.Contains(next.WaitReason, "held back"))
	})
	if running := c.RunningTasks(); len(running) != 1 {
		t.Fatalf("the scheduler placed next on GPU-0, which %s holds: %q run", id, running)
	}
	if want := fmt.Sprintf("it offers GPU GPU-0, which task %s holds", id); !strings.Contains(next.WaitReason, want) {
		t.Errorf("next waits because of %q, want %q", next.WaitReason, want)
	}
	if _, values := scrapeMetrics(t, in); values["offer_conflicts_total"] == 0 {
		t.Error("mesos_gpu_scheduler_offer_conflicts_total does not count the offer of GPU-0")
	}
	warned := false
	for _, e := range logged.AllEntries() {
		warned = warned || e.Level == logrus.WarnLevel && e.Data["task"] == id && e.Data["offered"] == "GPU GPU-0"
	}
	if !warned {
		t.Errorf("the log has no warning about the offer of GPU-0, which %s holds", id)
	}

	if err := in.KillJob(ctx, "train"); err != nil {
		t.Fatal(err)
	}
	awaitCondition(t, fmt.Sprintf("a SHUTDOWN of its executor has ended %s, which a KILL does not reach", id), func() bool {
		_, runs := c.FindTask(id)
		return !runs
	})
	awaitState(t, in, "train", job.Killed)
	c.SendOffer()
	awaitState(t, in, "next", job.Running)
}

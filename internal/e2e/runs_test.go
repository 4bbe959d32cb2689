package e2e

import (
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// checkRuns checks that the failed tasks of a job run again without the others, and that a service is updated while one of
// its tasks always runs.
func checkRuns(t *testing.T, c *cluster) {
	t.Helper()
	const resources = "cpus: 0.1\nmem: 256MiB\ncontainer: mesos\n"
	c.mustRun("submit", "--var", "fails=2", writeJobFile(t, "sweep",
		"name: sweep\n"+resources+"matrix: {n: [1, 2]}\nenv: {FAILS: \"{{fails}}\"}\ncommand: echo on $MESOS_TASK_ID; test {{matrix.n}} != $FAILS\n"))
	first := c.awaitJob("sweep", func(v *api.JobView) bool { return v.Terminal })
	if out := c.mustRun("rerun", "--failed", "sweep"); out != "job sweep@2 submitted: number 2\n" {
		t.Errorf("rerun prints %q", out)
	}
	second := c.awaitJob("sweep@2", func(v *api.JobView) bool { return v.Terminal })
	if got := second.Tasks[0]; got.State != job.Finished || got.FinishedAs != first.Tasks[0].ID || second.Tasks[1].State != job.Failed {
		t.Errorf("the second run has the tasks %+v", second.Tasks)
	}
	want := "sweep.0 | on " + first.Tasks[0].ID + "\nsweep.1 | on " + second.Tasks[1].ID + "\n"
	if out := c.run("logs", "--stdout", "sweep").out; out != want {
		t.Errorf("the second run prints %q, want %q", out, want)
	}
	if out := c.run("logs", "--stdout", "sweep@1").out; !strings.Contains(out, first.Tasks[1].ID) {
		t.Errorf("the first run prints %q", out)
	}

	file := writeJobFile(t, "web", "name: web\n"+resources+"service: true\ntasks: 2\nenv: {V: \"1\"}\ncommand: echo version $V; exec sleep 1000\n")
	if out := c.mustRun("apply", file); out != "service web submitted\n" {
		t.Errorf("apply prints %q", out)
	}
	c.mustRun("wait", "--for", "running", "web")
	if out := c.mustRun("apply", "--set", "env.V=2", file); !strings.Contains(out, "\n-  V: \"1\"\n+  V: \"2\"\n") ||
		!strings.HasSuffix(out, "service web updated to version 1\n") {
		t.Errorf("apply prints %q", out)
	}
	c.awaitJob("web", func(v *api.JobView) bool {
		updated, running := 0, 0
		for i := range v.Tasks {
			if v.Tasks[i].State == job.Running {
				running++
				updated += v.Tasks[i].Version
			}
		}
		if running == 0 {
			t.Error("no task of the service runs")
		}
		return updated == 2
	})
	c.awaitOutput("web.0 | version 2", "logs", "--stdout", "web") // a task that runs may not have printed it yet
	c.awaitOutput("web.1 | version 2", "logs", "--stdout", "web")
	c.mustRun("kill", "web")
	c.awaitJobEnd("web")
}

// TestRunsAndUpdates checks runs and updates on the embedded cluster.
func TestRunsAndUpdates(t *testing.T) {
	t.Parallel()
	checkRuns(t, startCluster(t))
}

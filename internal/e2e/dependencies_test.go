package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// TestDependenciesMatrixAndSchedule runs jobs with dependencies, a matrix and a schedule from
// the command line.
func TestDependenciesMatrixAndSchedule(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--gpus", "2xV100")

	t.Run("a pipeline runs its jobs in order", func(t *testing.T) {
		files, err := filepath.Glob(examplePath("pipeline/*.yaml"))
		if err != nil || len(files) != 3 {
			t.Fatalf("found %v, %v", files, err)
		}
		for _, file := range files {
			c.mustRun("submit", file)
		}
		c.awaitJobEnd("report")
		var last api.JobView
		for _, name := range []string{"prepare", "train", "report"} {
			var view api.JobView
			decodeJSON(t, c.mustRun("describe", "-o", "json", name), &view)
			if view.State != job.Finished {
				t.Errorf("%s ended %s: %s", name, view.State, view.Tasks[0].Message)
			}
			if len(last.Tasks) > 0 && view.Tasks[0].Started.Before(last.Tasks[0].Ended) {
				t.Errorf("%s started at %s, %s ended at %s", name, view.Tasks[0].Started, last.Spec.Name, last.Tasks[0].Ended)
			}
			last = view
		}
		if out := c.mustRun("describe", "report"); !strings.Contains(out, "after       job train to end (it has)\n") {
			t.Errorf("got:\n%s", out)
		}
	})

	t.Run("a job whose dependency failed is rejected", func(t *testing.T) {
		c.mustRun("run", "-d", "--name", "broken", "--", "sh", "-c", "exit 3")
		r := c.run("run", "--name", "next", "--after", "broken", "--", "true")
		if r.code != 1 || !strings.Contains(r.err, "job broken") || !strings.Contains(r.err, "FAILED, not finished") {
			t.Errorf("status %d, %q", r.code, r.err)
		}
		if r := c.run("run", "--after", "brokn", "--", "true"); r.code == 0 || !strings.Contains(r.err, `there is no job "brokn"; did you mean "broken"?`) {
			t.Errorf("status %d, %q", r.code, r.err)
		}
	})

	t.Run("a matrix runs one task per combination", func(t *testing.T) {
		c.mustRun("submit", examplePath("matrix.yaml"))
		c.awaitJobEnd("matrix")
		var view api.JobView
		decodeJSON(t, c.mustRun("describe", "-o", "json", "matrix"), &view)
		var got []string
		for _, task := range view.Tasks {
			line, _, _ := strings.Cut(c.mustRun("logs", task.ID), ", on GPU-")
			got = append(got, line)
		}
		if want := []string{"rate 0.1, seed 1", "rate 0.01, seed 1", "rate 0.01, seed 2", "rate 0.001, seed 7"}; !slices.Equal(got, want) {
			t.Errorf("the tasks say %q, want %q", got, want)
		}
		if out := c.mustRun("describe", "matrix"); !strings.Contains(out, "lr=0.001 seed=7") || !strings.Contains(out, "parallel    2 at a time") {
			t.Errorf("got:\n%s", out)
		}
	})

	t.Run("a schedule is listed, described and ended", func(t *testing.T) {
		file := writeJobFile(t, "nightly.yaml", "name: nightly\nschedule: {cron: 0 3 * * *, time_zone: Europe/Berlin}\ncommand: \"true\"\n")
		if out := c.mustRun("submit", file); !strings.HasPrefix(out, "schedule nightly submitted: its first job starts at ") {
			t.Errorf("got %q", out)
		}
		for _, verb := range [][]string{{"ps"}, {"schedules"}, {"describe", "nightly"}} {
			if out := c.mustRun(verb...); !strings.Contains(out, "nightly") || !strings.Contains(out, "Europe/Berlin") || !strings.Contains(out, "T03:00:00+0") {
				t.Errorf("%v:\n%s", verb, out)
			}
		}
		if out := c.mustRun("kill", "nightly"); out != "schedule nightly ended: jobs that it has submitted go on\n" {
			t.Errorf("got %q", out)
		}
		if r := c.run("describe", "nightly"); r.code == 0 || !strings.Contains(r.err, `there is no job "nightly"`) {
			t.Errorf("status %d, %q", r.code, r.err)
		}
		if out := c.mustRun("ps"); strings.Contains(out, "SCHEDULE") {
			t.Errorf("got:\n%s", out)
		}
	})

	t.Run("schema prints the JSON schema of job files", func(t *testing.T) {
		var schema struct {
			Properties map[string]any `json:"properties"`
		}
		if decodeJSON(t, c.mustRun("schema"), &schema); schema.Properties["matrix"] == nil {
			t.Errorf("it has %d keys", len(schema.Properties))
		}
	})
}

//go:build mesos

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// TestMesosMoveFromOneMachine: a scheduler on Mesos that begins with the files of "mesos-gpu local" has its ended jobs,
// its usage and its queue, and runs what waited.
func TestMesosMoveFromOneMachine(t *testing.T) {
	work := makeWorkDir(t)
	before := startDaemon(t, binary, "local", "--free-ports", "--executor", buildReleased(t), "--process-user=", "--work-dir", work, "--gpus", "1xV100")
	before.mustRun("submit", writeJobFile(t, "done.yaml", "name: done\ngpus: 1\ncpus: 0.1\nmem: 64MiB\ncommand: sleep 1\n"))
	before.awaitJob("done", func(v *api.JobView) bool { return v.TaskStates[job.Finished] == 1 })
	before.mustRun("submit", writeJobFile(t, "waits.yaml", "name: waits\ngpus: 2\ncpus: 0.1\nmem: 64MiB\ncontainer: mesos\ncommand: sleep 1000\n"))
	used := before.mustRun("usage", "--by", "type")
	if err := before.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-before.ended

	m := startMesos(t, stockAgentFlags...)
	dir := t.TempDir()
	for from, to := range map[string]string{
		"scheduler.journal":         "journal.db",
		"scheduler.journal.created": "journal.db.created",
		"accounting.db":             "accounting.db",
	} {
		content, err := os.ReadFile(filepath.Join(work, from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	after := m.startScheduler(t, "--journal", filepath.Join(dir, "journal.db"))
	if text := after.mustRun("describe", "done"); !strings.Contains(text, "FINISHED") {
		t.Errorf("the ended job:\n%s", text)
	}
	if got := after.mustRun("usage", "--by", "type"); got != used {
		t.Errorf("usage:\n%s\nwant:\n%s", got, used)
	}
	after.awaitJob("waits", func(v *api.JobView) bool { return v.TaskStates[job.Running] == 1 })
}

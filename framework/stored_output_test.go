package framework

import (
	"path/filepath"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// readStoredOutput returns the output of a task, and how it is described if it is stored.
func readStoredOutput(t *testing.T, in *testInstance, task string) (text string, stored *api.StoredOutput) {
	t.Helper()
	for part, err := range in.ReadTaskOutput(longTimeout(t), task, client.OutputOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if part.Stored != nil {
			stored = part.Stored
		}
		text += string(part.Output())
	}
	return text, stored
}

// TestOutputOutlastsSandboxes reads the output of both attempts of a task without their sandboxes, from a leader and from a
// standby. The first attempt ends before the leader stops, the second one while no scheduler leads.
func TestOutputOutlastsSandboxes(t *testing.T) {
	t.Run("folder", func(t *testing.T) { checkOutputOutlastsSandboxes(t, filepath.Join(t.TempDir(), "artifacts")) })
	t.Run("S3", func(t *testing.T) { checkOutputOutlastsSandboxes(t, startBucket(t)+"/team/artifacts") })
}

func checkOutputOutlastsSandboxes(t *testing.T, location string) {
	t.Helper()
	c, server := mesostest.NewCluster(t, 2), zktest.StartServer(t)
	start := func() *testInstance {
		t.Helper()
		return startInstance(t, c, SchedulerConfig{
			JournalPath:    "zk://" + server.Addr() + "/mesos-gpu/test",
			SessionTimeout: lasting,
			Artifacts:      location,
			OutputMiB:      1,
		})
	}
	leader := start()
	awaitRole(t, leader, api.Leader)
	spec := frameworktest.JobSpec("train", 1, 1)
	spec.Retries = 1
	if _, err := leader.SubmitJob(frameworktest.Timeout(t), spec); err != nil {
		t.Fatal(err)
	}
	first := awaitState(t, leader, "train", job.Running).Tasks[0].ID
	const line, kept = "0123456789abcde\n", 1 << 20 / 16
	c.SetFile(master.SandboxFilePath("framework-1", first, "stdout"), strings.Repeat(line, kept+5))
	c.SetFile(master.SandboxFilePath("framework-1", first, "stderr"), "error\n")
	c.EndTask(first, mesos.TASK_FAILED, "exited with status 1", "1")
	var second string
	awaitCondition(t, "the second attempt runs", func() bool {
		view, err := leader.GetJob(frameworktest.Timeout(t), "train")
		second = view.Tasks[0].ID
		return err == nil && second != first && view.Tasks[0].State == job.Running
	})
	awaitCondition(t, "the output of the first attempt is stored", func() bool { return leader.artifacts.HasOutput(first) })
	c.SetFile(master.SandboxFilePath("framework-1", second, "stdout"), "line 2\n")
	leader.stopAndWait(t)
	c.EndTask(second, mesos.TASK_FINISHED, "exited with status 0", "0")
	next := start()
	awaitRole(t, next, api.Leader)
	standby := start()
	awaitRole(t, standby, api.Standby)
	awaitCondition(t, "the output of the second attempt is stored", func() bool { return next.artifacts.HasOutput(second) })
	if text, stored := readStoredOutput(t, next, first); strings.Count(text, line) != kept+5 || stored != nil {
		t.Errorf("from the sandbox: %d bytes, %+v", len(text), stored)
	}
	for _, task := range []string{first, second} {
		c.RemoveFiles(master.SandboxFilePath("framework-1", task, ""))
	}
	for name, in := range map[string]*testInstance{"leader": next, "standby": standby} {
		text, stored := readStoredOutput(t, in, first)
		want := api.StoredOutput{Bytes: (kept-1)*16 + 6, MissingBytes: 6 * 16} // and the error
		if strings.Count(text, line) != kept-1 || strings.Count(text, "error\n") != 1 || stored == nil || *stored != want {
			t.Errorf("%s: the first attempt has %d bytes, %+v, want %+v", name, len(text), stored, want)
		}
		text, stored = readStoredOutput(t, in, second)
		if text != "line 2\n" || stored == nil || *stored != (api.StoredOutput{Bytes: 7}) {
			t.Errorf("%s: the second attempt has %.60q, %+v", name, text, stored)
		}
	}
}

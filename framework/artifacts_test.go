package framework

import (
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// awaitArtifacts waits until the artifacts of the job's first task are copied.
func awaitArtifacts(t *testing.T, in *testInstance, name string) api.ArtifactReport {
	t.Helper()
	ctx := frameworktest.Timeout(t)
	for {
		list, err := in.ListArtifacts(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Tasks) == 1 && !list.Tasks[0].Copied.IsZero() {
			return list.Tasks[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestArtifactsOutlastSandboxes copies the artifacts of a task and reads them without its
// sandbox. A task that ends while no scheduler runs is copied by the next one.
func TestArtifactsOutlastSandboxes(t *testing.T) {
	t.Run("folder", func(t *testing.T) { checkArtifactsOutlastSandboxes(t, filepath.Join(t.TempDir(), "artifacts")) })
	t.Run("S3", func(t *testing.T) { checkArtifactsOutlastSandboxes(t, startBucket(t)+"/team/artifacts") })
}

// startBucket starts a server with the API of S3 and returns the location of its bucket. The credentials are in the
// environment of this process. MESOS_GPU_TEST_S3 names a bucket of another server, whose address and credentials are in the
// environment too.
func startBucket(t *testing.T) string {
	t.Helper()
	if other := os.Getenv("MESOS_GPU_TEST_S3"); other != "" {
		return other
	}
	backend := s3mem.New()
	if err := backend.CreateBucket("models"); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(s.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL":      s.URL,
		"AWS_REGION":            "us-east-1",
		"AWS_ACCESS_KEY_ID":     "scheduler",
		"AWS_SECRET_ACCESS_KEY": "its secret",
	} {
		t.Setenv(name, value)
	}
	return "s3://models"
}

func checkArtifactsOutlastSandboxes(t *testing.T, location string) {
	t.Helper()
	c := mesostest.NewCluster(t, 2)
	cfg := SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), Artifacts: location, ArtifactsMiB: 1}
	in := startInstance(t, c, cfg)
	ctx := frameworktest.Timeout(t)
	large := strings.Repeat("0123456789abcdef", 20_000)
	tasks := map[string]string{}
	for _, name := range []string{"first", "later"} {
		spec := frameworktest.JobSpec(name, 1, 1)
		spec.Artifacts = []string{"results", "model", "none/x"}
		if _, err := in.SubmitJob(ctx, spec); err != nil {
			t.Fatal(err)
		}
		task := awaitState(t, in, name, job.Running).Tasks[0].ID
		tasks[name] = task
		for path, text := range map[string]string{"results/a": large, "results/deep/b": "b", "model": "weights", "stdout": "out"} {
			c.SetFile(master.SandboxFilePath("framework-1", task, "containers/c1/"+path), text)
		}
		list, err := in.ListArtifacts(ctx, name)
		if err != nil || len(list.Tasks) != 1 || !list.Tasks[0].Copied.IsZero() || len(list.Tasks[0].Files) > 0 {
			t.Errorf("while the task runs: %+v, %v", list, err)
		}
	}
	want := api.ArtifactReport{
		Task: tasks["first"], Missing: []string{"none/x"},
		Files: []api.Artifact{{Path: "results/a", Bytes: int64(len(large))}, {Path: "results/deep/b", Bytes: 1}, {Path: "model", Bytes: 7}},
	}
	checkCopied := func(name string) {
		t.Helper()
		got := awaitArtifacts(t, in, name)
		want.Task, want.Copied = tasks[name], got.Copied
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		c.RemoveFiles(master.SandboxFilePath("framework-1", tasks[name], ""))
		file, _, err := in.OpenTaskFile(ctx, tasks[name], "results/a")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if text, err := io.ReadAll(file); err != nil || string(text) != large {
			t.Errorf("%s: read %d bytes, %v", name, len(text), err)
		}
		list, err := in.ListTaskFiles(ctx, tasks[name], "results")
		if err != nil || len(list.Files) != 2 || !list.Files[1].Folder {
			t.Errorf("%s: listed %+v, %v", name, list, err)
		}
		_, _, err = in.OpenTaskFile(ctx, tasks[name], "stdout")
		if p := (*api.Problem)(nil); !errors.As(err, &p) || p.Status != 404 {
			t.Errorf("%s: a file that is no artifact: %v", name, err)
		}
	}
	c.EndTask(tasks["first"], mesos.TASK_FINISHED, "exited with status 0", "0")
	checkCopied("first")
	in.stopAndWait(t)
	in = startInstance(t, c, cfg)
	c.EndTask(tasks["later"], mesos.TASK_FAILED, "exited with status 1", "1")
	checkCopied("later")
}

// TestArtifactsThatAreNotCopied checks the reports of artifacts above the limit and without a
// sandbox, and the error for a scheduler without a store.
func TestArtifactsThatAreNotCopied(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	dir := t.TempDir()
	in := startInstance(t, c, SchedulerConfig{JournalPath: filepath.Join(dir, "journal.db"), Artifacts: filepath.Join(dir, "artifacts"), ArtifactsMiB: 1})
	ctx := frameworktest.Timeout(t)
	for name, text := range map[string]string{"large": strings.Repeat("x", 1<<20+1), "gone": ""} {
		spec := frameworktest.JobSpec(name, 1, 1)
		spec.Artifacts = []string{"small", "model"}
		if _, err := in.SubmitJob(ctx, spec); err != nil {
			t.Fatal(err)
		}
		task := awaitState(t, in, name, job.Running).Tasks[0].ID
		want := "the agent has no sandbox of the task"
		if text != "" {
			want = "with model the artifacts have 1048578 bytes, more than the limit of 1048576: the rest is left out"
			c.SetFile(master.SandboxFilePath("framework-1", task, "containers/c1/small"), "1")
			c.SetFile(master.SandboxFilePath("framework-1", task, "containers/c1/model"), text)
		}
		c.EndTask(task, mesos.TASK_FINISHED, "exited with status 0", "0")
		if r := awaitArtifacts(t, in, name); r.Error != want || len(r.Files) != min(1, len(text)) {
			t.Errorf("%s: %+v", name, r)
		}
		c.SendOffer()
	}
	other := startWithJournal(t, mesostest.NewCluster(t, 1), filepath.Join(t.TempDir(), "journal.db"))
	spec := frameworktest.JobSpec("none", 1, 1)
	spec.Artifacts = []string{"model"}
	if _, err := other.SubmitJob(ctx, spec); err == nil || !strings.Contains(err.Error(), "--artifacts") {
		t.Errorf("without a store: %v", err)
	}
}

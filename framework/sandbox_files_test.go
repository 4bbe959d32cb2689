package framework

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/framework/master"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestSandboxesAreRead reads the files of a mesos task, whose sandbox is below that of its
// executor, and of a docker task, whose sandbox is the executor's, also after their ends.
func TestSandboxesAreRead(t *testing.T) {
	c := mesostest.NewCluster(t, 2)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := frameworktest.Timeout(t)
	large := strings.Repeat("0123456789abcdef", 40_000) // several reads
	for name, folder := range map[string]string{"plain": "containers/c1/", "image": ""} {
		spec := frameworktest.JobSpec(name, 1, 1)
		if name == "image" {
			spec.Image = "busybox"
		}
		if _, err := in.SubmitJob(ctx, spec); err != nil {
			t.Fatal(err)
		}
		task := awaitState(t, in, name, job.Running).Tasks[0].ID
		for path, text := range map[string]string{"stdout": "out", "results/large": large, "results/deep/empty": "", ".docker/config.json": "secret"} {
			c.SetFile(master.SandboxFilePath("framework-1", task, folder+path), text)
		}
		check := func() {
			t.Helper()
			list, err := in.ListTaskFiles(ctx, task, "results/./")
			if err != nil || list.Path != "results" || !list.File.Folder || len(list.Files) != 2 || list.Files[0].Name != "deep" ||
				!list.Files[0].Folder || list.Files[1].Bytes != int64(len(large)) || list.Files[1].Mode != "644" {
				t.Errorf("%s: listed %+v, %v", name, list, err)
			}
			target := filepath.Join(t.TempDir(), "to")
			if err := in.CopyFromTask(ctx, task, "results", target, client.CopyOptions{}); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(target, "large")); err != nil || string(got) != large {
				t.Errorf("%s: copied %d bytes, %v", name, len(got), err)
			}
			if got, err := os.ReadFile(filepath.Join(target, "deep", "empty")); err != nil || len(got) > 0 {
				t.Errorf("%s: an empty file: %q, %v", name, got, err)
			}
			skipped := []string{}
			if err := in.CopyFromTask(ctx, task, ".", target, client.CopyOptions{OnSkip: func(name string, _ error) { skipped = append(skipped, name) }}); err != nil {
				t.Errorf("%s: the whole sandbox: %v", name, err)
			}
			if diff := cmp.Diff([]string{".docker/config.json"}, skipped); diff != "" {
				t.Errorf("%s: left out: %s", name, diff)
			}
		}
		check()
		c.EndTask(task, mesos.TASK_FINISHED, "exited with status 0", "0")
		if _, err := in.WaitForJob(ctx, name); err != nil {
			t.Fatal(err)
		}
		check()
		for path, want := range map[string]int{
			"none":                       404,
			"results/none":               404,
			"none/x":                     404,
			"..":                         400,
			"a/../../stdout":             400,
			"/etc/passwd":                400,
			"results":                    422,
			".docker/config.json":        403,
			"x/../.docker/./config.json": 403,
		} {
			file, _, err := in.OpenTaskFile(ctx, task, path)
			if err == nil {
				file.Close()
			}
			var p *api.Problem
			if !errors.As(err, &p) || p.Status != want {
				t.Errorf("%s: %s: got %v, want status %d", name, path, err, want)
			}
		}
		c.SendOffer()
	}
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("collected", 1, 1)); err != nil {
		t.Fatal(err)
	}
	task := awaitState(t, in, "collected", job.Running).Tasks[0].ID
	_, err := in.ListTaskFiles(ctx, task, "")
	if p := (*api.Problem)(nil); !errors.As(err, &p) || p.Code != api.CodeFileNotFound || !strings.Contains(p.Detail, "Mesos removes sandboxes some time after") {
		t.Errorf("a sandbox that Mesos has removed: %v", err)
	}
}

// TestDownloadResumes breaks the connection in the middle of a file.
func TestDownloadResumes(t *testing.T) {
	c := mesostest.NewCluster(t, 1)
	path := filepath.Join(t.TempDir(), "journal.db")
	in := startWithJournal(t, c, path)
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("train", 1, 1)); err != nil {
		t.Fatal(err)
	}
	task := awaitState(t, in, "train", job.Running).Tasks[0].ID
	text := strings.Repeat("0123456789abcdef", 1<<18)
	c.SetFile(master.SandboxFilePath("framework-1", task, "containers/c1/model"), text)
	proxy := newBreakingProxy(t, in.addr, 1<<20)
	api, err := client.New(proxy)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	file, size, err := api.OpenTaskFile(ctx, task, "model")
	if err != nil || size != int64(len(text)) {
		t.Fatalf("size %d, %v", size, err)
	}
	defer file.Close()
	if got, err := io.ReadAll(file); err != nil || string(got) != text {
		t.Errorf("read %d of %d bytes, %v", len(got), len(text), err)
	}
}

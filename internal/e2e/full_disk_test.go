package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// keepFull fills a disk, and takes what others free on it, until free is called.
func keepFull(t *testing.T, disk string) (free func()) {
	t.Helper()
	remove := testneeds.FillDisk(t, disk)
	f, err := os.Create(filepath.Join(disk, "more of others"))
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for page := make([]byte, 4<<10); ; {
			_, err := f.Write(page)
			if err == nil {
				continue
			}
			select {
			case <-time.After(time.Millisecond):
			case <-stop:
				return
			}
		}
	}()
	end := sync.OnceFunc(func() {
		close(stop)
		<-stopped
		f.Close()
	})
	t.Cleanup(end)
	return func() {
		end()
		remove()
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDiskLosesNoJob checks that on a full disk a task keeps running and ends as it should,
// that the daemon names the full folder, and that a job whose turn comes then waits and runs once
// there is room.
func TestFullDiskLosesNoJob(t *testing.T) {
	t.Parallel()
	disk := testneeds.MountSmallDisk(t, 32<<20)
	c := startDaemon(t, binary, "local", "--free-ports", "--gpus", "1xV100", "--process-user=", "--work-dir", filepath.Join(disk, "work"))
	gate := filepath.Join(t.TempDir(), "open")
	c.mustRun("run", "--detach", "--name", "first", "--gpus", "1", "--", "sh", "-c", "echo started; until [ -e "+gate+" ]; do sleep 0.1; done")
	c.awaitOutput("started", "logs", "first")
	c.mustRun("run", "--detach", "--name", "second", "--gpus", "1", "--", "true")
	free := keepFull(t, disk)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if view := c.awaitJob("first", func(view *api.JobView) bool { return view.Terminal }); view.State != job.Finished {
		t.Errorf("the task that ran ended as %s", view.State)
	}
	c.output.awaitLine(t, c.ended, regexp.MustCompile(regexp.QuoteMeta(filepath.Join(disk, "work", "agent"))+" is full"))
	free()
	if view := c.awaitJob("second", func(view *api.JobView) bool { return view.Terminal }); view.State != job.Finished {
		t.Errorf("the job that waited for room ended as %s", view.State)
	}
	if out := c.output.String(); strings.Contains(out, "panic") {
		t.Error(out)
	}
}

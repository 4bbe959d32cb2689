package executor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/task"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

const mib = 1 << 20

// fill writes a file of that size with allocated blocks.
func fill(t *testing.T, path string, size int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err == nil {
		_, err = f.Write(make([]byte, size))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil { // blocks are counted once they are written
		t.Fatal(err)
	}
}

// wantUsage checks the usage approximately, because folders use space too.
func wantUsage(t *testing.T, dir string, want int64) {
	t.Helper()
	got, err := measureFolder(t.Context(), dir, math.MaxInt64)
	if err != nil || got < want || got > want+mib/2 {
		t.Errorf("%s uses %d bytes (%v), want %d to %d", dir, got, err, want, want+mib/2)
	}
}

func TestMeasureFolder(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	wantUsage(t, dir, 0)
	fill(t, filepath.Join(dir, "a", "b", "c"), 3*mib)
	wantUsage(t, dir, 3*mib)
	// Links, names and holes use no space.
	fill(t, filepath.Join(outside, "big"), 2*mib)
	for name, target := range map[string]string{"file": filepath.Join(outside, "big"), "folder": outside, "loop": "."} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(dir, "a", "b", "c"), filepath.Join(dir, "second name")); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "sparse"), mib)
	if err := os.Truncate(filepath.Join(dir, "sparse"), 1<<40); err != nil {
		t.Fatal(err)
	}
	for n := range maxReadNames + 10 { // names are read in batches
		if err := os.Symlink("x", filepath.Join(dir, "a", fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	wantUsage(t, dir, 4*mib)
	if _, err := measureFolder(t.Context(), filepath.Join(dir, "folder"), math.MaxInt64); err == nil {
		t.Error("a link was taken for a sandbox")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := measureFolder(ctx, dir, math.MaxInt64); !errors.Is(err, context.Canceled) {
		t.Errorf("measuring went on: %v", err)
	}
}

// Counting stops once the limit is exceeded.
func TestMeasureFolderStopsAtLimit(t *testing.T) {
	dir := t.TempDir()
	for n := range 4 {
		fill(t, filepath.Join(dir, fmt.Sprint(n)), mib)
	}
	if got, err := measureFolder(t.Context(), dir, mib); err != nil || got <= mib || got >= 3*mib {
		t.Errorf("found %d bytes (%v), want little more than %d", got, err, mib)
	}
}

// nest creates nested folders and returns the deepest.
func nest(t *testing.T, dir string, folders int) string {
	t.Helper()
	dir += strings.Repeat("/d", folders)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Deeply nested files are counted too.
func TestMeasureNestedFolders(t *testing.T) {
	dir := t.TempDir()
	inner := nest(t, dir, maxFolderDepth-1)
	fill(t, filepath.Join(inner, "big"), 3*mib)
	if got, err := measureFolder(t.Context(), dir, math.MaxInt64); err != nil || got < 3*mib {
		t.Errorf("found %d bytes (%v), want %d and more", got, err, 3*mib)
	}
	nest(t, inner, 1)
	if _, err := measureFolder(t.Context(), dir, math.MaxInt64); !errors.Is(err, errUnmeasurable) {
		t.Errorf("of %d folders in a sandbox: got error %v, want %v", maxFolderDepth, err, errUnmeasurable)
	}
}

// A task that runs as the executor's user cannot hide files by making its folders
// unreadable. Folders of other users are not the task's fault.
func TestMeasureUnreadableFolders(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	const unprivileged, other = 65534, 65533
	closed := filepath.Join(dir, "closed")
	if err := errors.Join(os.Mkdir(closed, 0), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	for owner, hidden := range map[int]bool{unprivileged: true, other: false} {
		if err := os.Chown(closed, owner, owner); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), unprivileged, ^uintptr(0)); errno != 0 {
				done <- errno
				return
			}
			_, err := measureFolder(t.Context(), dir, math.MaxInt64)
			done <- err
		}()
		if err := <-done; !errors.Is(err, os.ErrPermission) && !errors.Is(err, errUnmeasurable) || errors.Is(err, errUnmeasurable) != hidden {
			t.Errorf("a folder of user %d, closed: %v, want it hidden: %v", owner, err, hidden)
		}
	}
}

// File systems mounted in a sandbox do not count, even bind mounts of the same file
// system.
func TestMeasureFolderSkipsMounts(t *testing.T) {
	testneeds.RequireRoot(t)
	dir, other := t.TempDir(), t.TempDir()
	fill(t, filepath.Join(dir, "own"), mib)
	fill(t, filepath.Join(other, "big"), 3*mib)
	for _, name := range []string{"bind", "tmpfs"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, name), unix.MNT_DETACH) })
	}
	fill(t, filepath.Join(dir, "file"), 0)
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, "file"), unix.MNT_DETACH) })
	for _, err := range []error{
		unix.Mount(other, filepath.Join(dir, "bind"), "", unix.MS_BIND, ""),
		unix.Mount(filepath.Join(other, "big"), filepath.Join(dir, "file"), "", unix.MS_BIND, ""),
		unix.Mount("tmpfs", filepath.Join(dir, "tmpfs"), "tmpfs", 0, ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fill(t, filepath.Join(dir, "tmpfs", "big"), 3*mib)
	wantUsage(t, dir, mib)
}

// measuredRuntime is a task that also writes outside the sandbox.
type measuredRuntime struct {
	*fakeRuntime
	written chan int64
	asked   chan time.Time
}

func (m measuredRuntime) Start(ctx context.Context, t task.TaskSpec) (task.RunningTask, error) {
	_, err := m.fakeRuntime.Start(ctx, t)
	return m, err
}

func (m measuredRuntime) MeasureWritten(context.Context) (int64, error) {
	m.asked <- time.Now()
	return <-m.written, nil
}

// A task that exceeds its disk limit is killed immediately, and its status contains the
// reason and the usage.
func TestDiskLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		m := measuredRuntime{r.task, make(chan int64, 1), make(chan time.Time, 1)}
		r.cfg.Runtimes[job.Docker] = m
		fill(t, filepath.Join(r.cfg.Sandbox, "stdout.1"), 2*mib) // rotated output counts
		r.run()
		r.subscribed()
		work := info(t, task.TaskSpec{Containerizer: job.Docker, DiskMiB: 10, KillGrace: time.Minute})
		volume := mesos.Resource{Name: "disk", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 1000},
			Disk: &mesos.Resource_DiskInfo{Volume: &mesos.Volume{Mode: mesos.RW.Enum(), ContainerPath: "data"}}}
		work.Resources = append(work.Resources, volume)
		r.launch(work)
		r.running()
		start := time.Now()
		for n, written := range []int64{0, 7 * mib, 9 * mib} {
			if at := (<-m.asked).Sub(start); at != time.Duration(n+1)*10*time.Second {
				t.Errorf("measured after %s", at)
			}
			m.written <- written
		}
		if sig := <-r.task.signals; sig != 9 || time.Since(start) != 30*time.Second {
			t.Errorf("signal %d after %s, want SIGKILL at once", sig, time.Since(start))
		}
		r.task.exit <- task.ExitStatus{Signal: 9}
		s := r.update(mesos.TASK_FAILED)
		if s.GetReason() != mesos.REASON_CONTAINER_LIMITATION_DISK || !strings.Contains(s.GetMessage(), "used at least 11.") ||
			!strings.HasSuffix(s.GetMessage(), "its limit is 10.0 MiB") {
			t.Errorf("ended for %s with %q", s.GetReason(), s.GetMessage())
		}
		if diff := cmp.Diff(&mesos.TaskResourceLimitation{Resources: plainDiskResources(work.Resources[2:3])}, s.Limitation); diff != "" {
			t.Errorf("limitation (-want +got):\n%s", diff)
		}
		r.acknowledge(s)
		r.endedWell()
	})
}

// diskRig returns an executor with a disk limit and a running task with the same limit.
func diskRig(t *testing.T, mibEach float64) (*testRig, measuredRuntime) {
	r := newRig(t)
	m := measuredRuntime{r.task, make(chan int64, 1), make(chan time.Time, 1)}
	r.cfg.Runtimes[job.Docker] = m
	work := info(t, task.TaskSpec{Containerizer: job.Docker, DiskMiB: mibEach, KillGrace: time.Minute})
	r.resources = plainDiskResources(work.Resources)
	r.run()
	r.subscribed()
	r.launch(work)
	r.running()
	return r, m
}

// ended waits for the kill of a task that exceeded its limit and returns the status
// message.
func (m measuredRuntime) ended(t *testing.T, r *testRig) string {
	t.Helper()
	<-r.task.signals
	r.task.exit <- task.ExitStatus{Signal: 9}
	s := r.update(mesos.TASK_FAILED)
	if s.GetReason() != mesos.REASON_CONTAINER_LIMITATION_DISK {
		t.Errorf("ended for %s", s.GetReason())
	}
	r.acknowledge(s)
	r.endedWell()
	return s.GetMessage()
}

// A task may also use its executor's disk. A slow measurement does not stop later ones.
func TestDiskLimitIncludesExecutor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := diskRig(t, 10)
		<-m.asked
		time.Sleep(time.Hour)
		asked := time.Now()
		m.written <- 15 * mib
		select {
		case at := <-m.asked:
			if pause := at.Sub(asked); pause != maxMeasurementPause {
				t.Errorf("measured again after %s, want %s", pause, maxMeasurementPause)
			}
		case <-r.task.signals:
			t.Fatal("ended within the limit of both")
		}
		m.written <- 21 * mib
		if got := m.ended(t, r); !strings.HasSuffix(got, "its limit is 20.0 MiB") {
			t.Errorf("ended with %q, want the limit of both", got)
		}
	})
}

// If the task makes its disk usage unmeasurable, it is killed.
func TestUnmeasurableDiskEndsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, m := diskRig(t, 10)
		nest(t, r.cfg.Sandbox, maxFolderDepth)
		<-m.asked
		m.written <- 0
		if got := m.ended(t, r); !strings.Contains(got, "prevented the measurement of its disk usage, and its limit is 20.0 MiB") ||
			!strings.Contains(got, "at most 256 are allowed") {
			t.Errorf("ended with %q, want why and the limit", got)
		}
	})
}

// A task without disk resources has no disk limit.
func TestNoDiskLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.Runtimes[job.Docker] = measuredRuntime{r.task, nil, nil} // would block if called
		r.run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{Containerizer: job.Docker}))
		r.running()
		time.Sleep(time.Hour)
		r.task.exit <- task.ExitStatus{}
		r.acknowledge(r.update(mesos.TASK_FINISHED))
		r.endedWell()
	})
}

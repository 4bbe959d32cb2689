package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"mesos-gpu/executor/rotate"
	"mesos-gpu/internal/testing/testimage"
)

// A task's output is kept in a bounded number of files, in whole lines, with the newest
// in stdout. Later output through the agent's own descriptor is in an older file.
func TestOutputRotates(t *testing.T) {
	h := newHost(t)
	h.Logs = rotate.RotationLimits{Bytes: 64 << 10, Files: 3}
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:rotates", nil, nil))
	agents, err := os.OpenFile(filepath.Join(h.Sandbox, "stdout"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer agents.Close()
	if _, err := agents.WriteString("the executor's\n"); err != nil {
		t.Fatal(err)
	}
	const first, last = 100001, 112000 // 84 kB
	work := shell(img, fmt.Sprintf("seq %d %d; echo to stderr >&2", first, last))
	_, stdout, stderr := h.run(t, work)
	if _, err := agents.WriteString("and more\n"); err != nil {
		t.Fatal(err)
	}
	older := h.read(t, "stdout.1")
	var want strings.Builder
	want.WriteString("the executor's\n")
	for n := first; n <= last; n++ {
		fmt.Fprintln(&want, n)
	}
	before, ok := strings.CutSuffix(older, "and more\n")
	if !ok || before+stdout != want.String() {
		t.Errorf("stdout.1 ends in %q and stdout begins with %q, want all lines once", older[len(older)-20:], stdout[:20])
	}
	if len(before) > 64<<10 || !strings.HasSuffix(before, "\n") {
		t.Errorf("stdout.1 holds %d bytes and ends in %q, want whole lines of 64 KiB", len(before), before[len(before)-7:])
	}
	if stderr != "to stderr\n" {
		t.Errorf("stderr is %q", stderr)
	}
}

// smallDisk mounts a tmpfs and fills it with a file that free removes.
func smallDisk(t *testing.T, size string, ballast int) (dir string, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("mesos-gpu-test", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	name := filepath.Join(dir, "ballast")
	if err := os.WriteFile(name, make([]byte, ballast), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// A task whose sandbox is on a full disk continues, and a marker in its output reports
// the gap.
func TestOutputWithFullSandbox(t *testing.T) {
	h := newHost(t)
	disk, free := smallDisk(t, "256k", 240<<10)
	h = h.inSandbox(t, disk)
	var logged messageLog
	log := logrus.New()
	log.SetOutput(&logged)
	h.Log, h.Logs = log, rotate.RotationLimits{Bytes: 64 << 10, Files: 3} // the marker of the gap is kept for seconds
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:full", nil, nil))
	work := shell(img, `line=$(head -c 1000 /dev/zero | tr '\0' x)
until [ -e $MESOS_SANDBOX/go ]; do echo $line; sleep 0.05; done
echo after; exit 7`)
	r := h.start(t, work)
	awaitText(t, logged.String, "no space left on device")
	free()
	awaitText(t, logged.String, "task's output is written again")
	if err := os.WriteFile(filepath.Join(disk, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	exit, err := r.Wait(t.Context())
	if err != nil || exit.Code != 7 {
		t.Errorf("task %s (%v), want status 7", exit, err)
	}
	all := h.read(t, "stdout")
	for n := 1; n < 3; n++ {
		if data, err := os.ReadFile(filepath.Join(disk, fmt.Sprint("stdout.", n))); err == nil {
			all = string(data) + all
		}
	}
	if !strings.Contains(all, " bytes of output were lost here]\n") || !strings.HasSuffix(all, "after\n") {
		t.Errorf("output ends in %q, and says of the gap: %v", all[max(0, len(all)-100):], strings.Contains(all, "were lost here"))
	}
	h.nothingLeft(t, work)
}

// The engine's disk is full: the task that fills it gets the error, a task that starts
// then fails with the reason, and the next one runs.
func TestOutputWithFullEngineDisk(t *testing.T) {
	h := newHost(t)
	disk, free := smallDisk(t, "48m", 0)
	h = h.on(t, newPrivateEngine(t, "--data-root", disk))
	img := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-test:engine-full", nil, nil))
	free()
	t.Run("a task that fills the disk fails", func(t *testing.T) {
		h := h.inSandbox(t, t.TempDir())
		exit, _, stderr := h.run(t, shell(img, "cat /dev/zero >/fill"))
		if exit.Code != 1 || !strings.Contains(stderr, "No space left on device") {
			t.Errorf("task %s and wrote %q, want it out of space", exit, stderr)
		}
	})
	t.Run("a full disk prevents the start", func(t *testing.T) {
		fill(t, filepath.Join(disk, "ballast"))
		work := shell(img, "exit 0")
		_, err := h.Start(t.Context(), work)
		if err == nil || !strings.Contains(err.Error(), "no space left on device") || !strings.Contains(err.Error(), img) {
			t.Errorf("got %v, want the reason", err)
		}
		h.nothingLeft(t, work)
		free()
	})
	t.Run("tasks start when the disk has space", func(t *testing.T) {
		if exit, _, _ := h.run(t, shell(img, "exit 0")); !exit.Succeeded() {
			t.Errorf("task %s", exit)
		}
	})
}

// fill writes until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int{1 << 20, 4096, 1} {
		for block := make([]byte, size); ; {
			if _, err := file.Write(block); err != nil {
				break
			}
		}
	}
}

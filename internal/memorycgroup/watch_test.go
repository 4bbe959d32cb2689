package memorycgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testneeds"
)

// awaitUsage returns the usage that a watcher has read.
func awaitUsage(t *testing.T, w *Watcher) Usage {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if u, ok := w.LastUsage(); ok {
			return u
		}
	}
	t.Fatal("the watcher has read no usage")
	return Usage{}
}

// A process that needs more than its cgroup's limit is killed, and the watcher has both numbers after the cgroup's end.
func TestWatchOutOfMemory(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	own, err := FindOwn("/proc")
	if err != nil || own.files != version1 {
		t.Skipf("needs the cgroup v1 memory hierarchy: %v", err)
	}
	g := Open(filepath.Join(own.dir, fmt.Sprintf("mesos-gpu-test-%d", os.Getpid())))
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(g.dir) })
	const limit = 32 << 20
	if err := os.WriteFile(filepath.Join(g.dir, g.files.limit), []byte(fmt.Sprint(limit)), 0); err != nil {
		t.Fatal(err)
	}
	w, err := g.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := exec.Command("/bin/sh", "-c", "echo $$ > "+g.dir+"/cgroup.procs && exec dd if=/dev/zero of=/dev/null bs=200M count=1")
	err = c.Run()
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v", err)
	}
	awaitUsage(t, w) // of a cgroup that is removed earlier there is nothing to read
	if err := os.Remove(g.dir); err != nil {
		t.Fatal(err)
	}
	if !w.RanOut() {
		t.Error("the cgroup has not run out of memory")
	}
	if u := awaitUsage(t, w); u.LimitBytes != limit || u.PeakBytes < limit*9/10 || u.PeakBytes > limit {
		t.Errorf("the cgroup has used %+v", u)
	}
	w.Close() // twice is allowed
}

// Of a cgroup that was removed before its usage could be read, the signals of version 1 are left: one for each time it ran
// out of memory, and one for its removal.
func TestRanOutBeforeRemoval(t *testing.T) {
	for signals, want := range []bool{false, false, true, true} {
		fd, err := unix.Eventfd(uint(signals), unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			t.Fatal(err)
		}
		w := &Watcher{group: Open(filepath.Join(t.TempDir(), "removed")), events: os.NewFile(uintptr(fd), "eventfd"), done: make(chan struct{})}
		if got := w.RanOut(); got != want {
			t.Errorf("after %d signals: %t before the watcher has read them", signals, got)
		}
		go w.run()
		if got := w.RanOut(); got != want {
			t.Errorf("after %d signals: %t", signals, got)
		}
		w.Close()
	}
	if (*Watcher)(nil).RanOut() {
		t.Error("a watcher that could not be started has seen something")
	}
}

// The files of version 2 are read when one of them changes.
func TestWatchVersion2(t *testing.T) {
	dir := t.TempDir()
	writeGroup(t, dir, map[string]string{"memory.max": "1048576\n", "memory.peak": "1048576\n", "memory.events": "oom_kill 0\n"})
	w, err := Group{dir, version2}.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if u, ok := w.LastUsage(); ok {
		t.Errorf("before any event: %+v", u)
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("oom_kill 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if u := awaitUsage(t, w); u.LimitBytes != 1<<20 || u.PeakBytes != 1<<20 || !w.RanOut() {
		t.Errorf("got %+v", u)
	}
	if _, err := (Group{t.TempDir(), version2}).Watch(); err == nil {
		t.Error("a removed cgroup is watched")
	}
	var none *Watcher
	none.Close()
}

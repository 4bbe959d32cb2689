package mps

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/share"
)

func mustAdmit(t *testing.T, m *Limiter, container string, shares []gpu.DeviceShare) share.LimitSetup {
	t.Helper()
	s, err := m.AdmitContainer(t.Context(), container, shares)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.ReleaseContainer(context.Background(), container) })
	return s
}

// The containers of a device share one daemon, each with its own limits, until the last
// one ends.
func TestOneDaemonPerDevice(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	m := newTestLimiter(t, dir)
	got := mustAdmit(t, m, "a", newShares(4096, 30))
	pipe, shm := filepath.Join(dir, uuid, "pipe"), filepath.Join(dir, "shm", uuid)
	want := share.LimitSetup{
		Mounts: []share.LimitMount{{Source: pipe, Target: pipe}, {Source: shm, Target: "/dev/shm"}},
		Environment: map[string]string{
			"CUDA_MPS_PIPE_DIRECTORY": pipe, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=4096M", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	first := daemonPID(m)
	if first == 0 {
		t.Fatal("no daemon runs")
	}
	if text, err := os.ReadFile(filepath.Join(shm, "of-the-daemon")); string(text) != uuid {
		t.Errorf("the daemon's /dev/shm is not its clients', or it has other devices: %q, %v", text, err)
	}
	if _, ok := mustAdmit(t, m, "b", newShares(1024, 0)).Environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]; ok {
		t.Error("a part without cores has a limit of threads")
	}
	if err := m.ReleaseContainer(t.Context(), "a"); err != nil || daemonPID(m) != first {
		t.Errorf("with one container left the daemon is %d, was %d: %v", daemonPID(m), first, err)
	}
	if err := m.ReleaseContainer(t.Context(), "b"); err != nil || daemonPID(m) != 0 {
		t.Errorf("with no container left the daemon is %d: %v", daemonPID(m), err)
	}
	if left, err := os.ReadDir(filepath.Dir(shm)); err != nil || len(left) > 0 {
		t.Errorf("the daemon leaves shared memory: %v, %v", left, err)
	}
	mustAdmit(t, m, "c", newShares(1, 1))
	if now := daemonPID(m); now == 0 || now == first {
		t.Errorf("the next container's daemon is %d, the last was %d", now, first)
	}
}

const (
	// patience is long enough for a program to start on a busy machine.
	patience = time.Minute
	// awaitedTimeout is for the tests that wait for all of it.
	awaitedTimeout = 5 * time.Second
)

// A daemon that ends or hangs is replaced, and the next container can use the new one.
func TestDaemonFaults(t *testing.T) {
	testneeds.RequireRoot(t)
	for _, how := range []string{"dies", "hangs"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			m := newTestLimiter(t, dir)
			m.cfg.commandTimeout = patience
			if how == "hangs" {
				m.cfg.commandTimeout = awaitedTimeout
			}
			mustAdmit(t, m, "a", newShares(1, 1))
			first, file := daemonPID(m), faultFile(filepath.Join(dir, uuid, "pipe"))
			if err := os.WriteFile(file, []byte(how), 0o644); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the daemon is gone", func() bool { return daemonPID(m) != first })
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			eventually(t, "another container is admitted", func() bool {
				_, err := m.AdmitContainer(t.Context(), "b", newShares(1, 1))
				return err == nil
			})
			if err := m.ReleaseContainer(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			if err := m.ReleaseContainer(t.Context(), "b"); err != nil || daemonPID(m) != 0 {
				t.Errorf("at last the daemon is %d: %v", daemonPID(m), err)
			}
		})
	}
}

// A daemon that runs is never replaced for what it answers, also by the next process: clients would end with it.
// Clients can change the number, and while another control session is open there is none.
func TestRunningDaemonIsKept(t *testing.T) {
	testneeds.RequireRoot(t)
	for _, fault := range []string{"says 0.0", "says Unknown command", "another session"} {
		t.Run(fault, func(t *testing.T) {
			dir := t.TempDir()
			m := newTestLimiter(t, dir)
			mustAdmit(t, m, "a", newShares(1, 1))
			first, pipe := daemonPID(m), filepath.Join(dir, uuid, "pipe")
			if fault == "another session" {
				eventually(t, "the session is open", func() bool { // no probe has one
					c, err := net.Dial("unixpacket", filepath.Join(pipe, "control"))
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { c.Close() })
					c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
					_, err = c.Read(make([]byte, 1))
					return errors.Is(err, os.ErrDeadlineExceeded)
				})
			} else if err := os.WriteFile(faultFile(pipe), []byte(fault), 0o644); err != nil {
				t.Fatal(err)
			}
			keeps := func(m *Limiter) {
				t.Helper()
				for range maxFailures + 1 {
					d := m.daemons[uuid]
					before := probes(d)
					eventually(t, "another probe", func() bool { return probes(d) > before })
				}
				if now := daemonPID(m); now != first {
					t.Errorf("the daemon is %d, want %d still", now, first)
				}
			}
			keeps(m)
			mustAdmit(t, m, "b", newShares(1, 1))
			ctx, stop := context.WithCancel(t.Context())
			stop()
			if err := m.Run(ctx); err != nil {
				t.Fatal(err)
			}
			next := newTestLimiter(t, dir)
			mustAdmit(t, next, "a", newShares(1, 1))
			keeps(next)
		})
	}
}

// A server that cannot start is an error of the next admission, with the daemon's words. Some time later the
// device is tried again.
func TestFailedServerIsNoticed(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	m := newTestLimiter(t, dir)
	m.cfg.backoffMax = 2 * time.Second
	mustAdmit(t, m, "a", newShares(1, 1))
	file := faultFile(filepath.Join(dir, uuid, "pipe"))
	if err := os.WriteFile(file, []byte("server fails"), 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an admission fails", func() bool {
		_, err := m.AdmitContainer(t.Context(), "b", newShares(1, 1))
		return err != nil && strings.Contains(err.Error(), "Server 20516 exited with status 1")
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "containers are admitted again", func() bool {
		_, err := m.AdmitContainer(t.Context(), "b", newShares(1, 1))
		return err == nil
	})
	if err := m.ReleaseContainer(t.Context(), "b"); err != nil {
		t.Error(err)
	}
}

// The daemon's files stay small, with their last lines. Errors quote these.
func TestOutputIsCut(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	d := newControlDaemon(ControlConfig{Dir: t.TempDir(), Log: log}, uuid)
	if err := os.MkdirAll(d.logDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	daemons, err := os.OpenFile(d.outputFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer daemons.Close()
	line := strings.Repeat("x", 99) + "\n"
	for i := range 3 * maxLogBytes / len(line) {
		if _, err := daemons.WriteString(line); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			d.checkOutput()
		}
	}
	if _, err := daemons.WriteString("Server 7 exited with status 2\n"); err != nil {
		t.Fatal(err)
	}
	d.checkOutput()
	text, err := os.ReadFile(d.outputFile())
	if err != nil || len(text) > maxLogBytes+1000*len(line) || !strings.HasPrefix(string(text), "xxx") {
		t.Errorf("%d bytes are left, at most %d: %v", len(text), maxLogBytes+1000*len(line), err)
	}
	if last := d.lastOutput(); !strings.HasSuffix(last, "Server 7 exited with status 2") || len(last) > maxOutputBytes {
		t.Errorf("quotes %d bytes: %.80q", len(last), last)
	}
	if d.serverErr == nil || d.serverErr.Error() != "Server 7 exited with status 2" {
		t.Errorf("noticed %v", d.serverErr)
	}
}

// probes counts the lines that the stand-in has written.
func probes(d *controlDaemon) int64 {
	_, size := readTail(d.outputFile(), 0)
	return size
}

// A repeated admission, as by the executor or after a restart, keeps a container's daemon
// even if it answers slowly.
func TestRepeatedAdmission(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	m := newTestLimiter(t, dir)
	mustAdmit(t, m, "a", newShares(4096, 30))
	s := m.daemons[uuid]
	s.leaveRunning() // no further request, so the daemon stays slow
	t.Cleanup(s.killDaemon)
	s.recordProbe(errors.New("slow"))
	s.cfg.commandTimeout = 200 * time.Millisecond
	if _, err := m.AdmitContainer(t.Context(), "a", newShares(1, 1)); err == nil || !strings.Contains(err.Error(), "slow") {
		t.Errorf("got %v, want that the daemon is slow", err)
	}
	used, err := m.ReadUsage("a")
	if want := []share.ShareUsage{{UUID: uuid, MemLimitBytes: 4096 << 20, Cores: 30}}; err != nil || !cmp.Equal(want, used) || daemonPID(m) == 0 {
		t.Errorf("afterwards it has %v and daemon %d, want %v still: %v", used, daemonPID(m), want, err)
	}
	if _, err := m.AdmitContainer(t.Context(), "b", newShares(1, 1)); err == nil {
		t.Error("another is admitted")
	}
	if used, err := m.ReadUsage("b"); err != nil || used != nil {
		t.Errorf("the other has %v afterwards: %v", used, err)
	}
}

// Shared memory that another user has created is not used.
func TestSharedMemoryFolderIsPrivate(t *testing.T) {
	dir := t.TempDir()
	for name, lay := range map[string]func(path string) error{
		"open to others": func(path string) error { return os.Mkdir(path, 0o755) },
		"a link":         func(path string) error { return os.Symlink(dir, path) },
		"a file":         func(path string) error { return os.WriteFile(path, nil, 0o600) },
	} {
		path := filepath.Join(dir, name)
		if err := lay(path); err != nil {
			t.Fatal(err)
		}
		if err := makePrivateFolder(path); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for range 2 {
		if err := makePrivateFolder(filepath.Join(dir, "ours")); err != nil {
			t.Error(err)
		}
	}
}

// A daemon that does not start prevents the container from starting; the error contains
// the reason.
func TestContainerIsRejectedIfDaemonDoesNotStart(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	m := newTestLimiter(t, dir)
	m.cfg.commandTimeout = awaitedTimeout
	if err := os.MkdirAll(filepath.Join(dir, uuid), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(faultFile(filepath.Join(dir, uuid, "pipe")), []byte("broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := m.AdmitContainer(t.Context(), "a", newShares(1, 1))
	if err == nil || !strings.Contains(err.Error(), "no CUDA-capable device is detected") {
		t.Errorf("got %v, want the output of the control program", err)
	}
	if used, _ := m.ReadUsage("a"); len(used) != 0 || daemonPID(m) != 0 {
		t.Errorf("%v and process %d are left", used, daemonPID(m))
	}
}

// A daemon outlives this process while containers use it, and the next process takes it
// over.
func TestRunningDaemonIsTakenOver(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	first := newTestLimiter(t, dir)
	if _, err := first.AdmitContainer(t.Context(), "a", newShares(1, 1)); err != nil {
		t.Fatal(err)
	}
	was := daemonPID(first)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := first.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := first.AdmitContainer(t.Context(), "b", newShares(1, 1)); err == nil {
		t.Error("a container is admitted while the process ends")
	}
	next := newTestLimiter(t, dir)
	mustAdmit(t, next, "a", newShares(1, 1))
	if now := daemonPID(next); now != was {
		t.Errorf("the daemon is %d, want %d still", now, was)
	}
	if err := next.ReleaseContainer(t.Context(), "a"); err != nil || daemonPID(next) != 0 {
		t.Errorf("with no container left the daemon is %d: %v", daemonPID(next), err)
	}
}

// A container that needs no limit waits until the device's daemon has ended.
func TestUnlimitedContainerAwaitsEndOfDaemon(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	m := newTestLimiter(t, dir)
	if err := m.AwaitUnlimited(t.Context(), uuid); err != nil {
		t.Errorf("without a daemon: %v", err)
	}
	mustAdmit(t, m, "a", newShares(1, 1))
	m.cfg.commandTimeout = 200 * time.Millisecond
	if err := m.AwaitUnlimited(t.Context(), uuid); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Errorf("while the daemon has clients: %v", err)
	}
	m.cfg.commandTimeout = patience
	freed := make(chan error, 1)
	go func() { freed <- m.AwaitUnlimited(t.Context(), uuid) }()
	if err := m.ReleaseContainer(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := <-freed; err != nil || daemonPID(m) != 0 {
		t.Errorf("after the daemon's end: %v, process %d", err, daemonPID(m))
	}
}

// In compute mode EXCLUSIVE_PROCESS, a daemon that an earlier process left keeps others from the device.
func TestUnlimitedContainerIsRejectedWhileExclusiveDaemonIsLeft(t *testing.T) {
	testneeds.RequireRoot(t)
	dir := t.TempDir()
	first := newTestLimiter(t, dir)
	mustAdmit(t, first, "a", newShares(1, 1))
	next := newTestLimiter(t, dir)
	if err := next.AwaitUnlimited(t.Context(), uuid); err != nil {
		t.Errorf("in the default mode: %v", err)
	}
	next.cfg.Exclusive = true
	if err := next.AwaitUnlimited(t.Context(), uuid); err == nil || !strings.Contains(err.Error(), "earlier agent daemon") {
		t.Errorf("in exclusive mode: %v", err)
	}
}

func TestCheckDevice(t *testing.T) {
	m := newTestLimiter(t, t.TempDir())
	simulated, absent := newTestLimiter(t, t.TempDir()), newTestLimiter(t, t.TempDir())
	simulated.cfg.Simulated, absent.cfg.program = true, "no-such-mps-control"
	for _, c := range []struct {
		name string
		m    *Limiter
		d    gpu.Device
		want string
	}{
		{"Volta", m, gpu.Device{Arch: "7.0"}, ""},
		{"unknown compute capability", m, gpu.Device{}, ""},
		{"Pascal", m, gpu.Device{Arch: "6.0"}, "compute capability 6.0"},
		{"MIG", m, gpu.Device{Arch: "8.0", MIG: &gpu.MIG{}}, "MIG device"},
		{"simulated", simulated, gpu.Device{}, "simulated"},
		{"without the program", absent, gpu.Device{}, "no-such-mps-control"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.m.CheckDevice(t.Context(), c.d); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := m.AdmitContainer(t.Context(), "a", append(newShares(1, 1), gpu.DeviceShare{UUID: "GPU-b", MemMiB: 1})); err == nil ||
		!strings.Contains(err.Error(), "shares of 2 devices") {
		t.Errorf("two devices: got %v", err)
	}
}

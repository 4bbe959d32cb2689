// Package testneeds declares what a test needs of the machine. If it is missing,
// the test is skipped with a message that says what to install. With
// MESOS_GPU_TEST_ALL set (the full suite as root) the test fails instead, so
// that a green run cannot hide a gap. A short run (go test -short, make
// test-quick) skips all tests that need something.
package testneeds

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

// IsLongRun reports whether tests repeat random faults as often as in make
// test-long, which sets MESOS_GPU_TEST_LONG.
func IsLongRun() bool { return os.Getenv("MESOS_GPU_TEST_LONG") != "" }

// skipIfShort skips the test in a short run.
func skipIfShort(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("needs %s: not in a short run", what)
	}
}

func reportMissing(t testing.TB, what, do string) {
	t.Helper()
	if os.Getenv("MESOS_GPU_TEST_ALL") != "" {
		t.Fatalf("needs %s: %s", what, do)
	}
	t.Skipf("needs %s: %s", what, do)
}

// MemoryDir returns a new folder in memory if the machine has one, otherwise
// t.TempDir(). Synchronizing a file there takes no time, and the file survives the
// death of processes, but not of the machine.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "mesos-gpu-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// RequireRoot asks for uid 0.
func RequireRoot(t testing.TB) {
	t.Helper()
	skipIfShort(t, "root")
	if os.Geteuid() != 0 {
		reportMissing(t, "root", "run the tests as root")
	}
}

// RequireProgram asks for a program on PATH and returns its path.
func RequireProgram(t testing.TB, name, pkg string) string {
	t.Helper()
	skipIfShort(t, name)
	path, err := exec.LookPath(name)
	if err != nil {
		reportMissing(t, name, "apt-get install "+pkg)
	}
	return path
}

// RequireDevicesCgroup asks for the cgroup v1 devices hierarchy, writable.
func RequireDevicesCgroup(t testing.TB) string {
	t.Helper()
	RequireRoot(t)
	const root = "/sys/fs/cgroup/devices"
	if _, err := os.Stat(root + "/devices.list"); err != nil {
		if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
			reportMissing(t, "the cgroup v1 devices hierarchy", "mount -t cgroup -o devices none "+root)
		}
	}
	return root
}

// RequireDockerEngine asks for an engine that answers.
func RequireDockerEngine(t testing.TB) *client.Client {
	t.Helper()
	skipIfShort(t, "a Docker engine")
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		reportMissing(t, "a Docker engine", err.Error())
	}
	t.Cleanup(func() { c.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ping, err := c.Ping(ctx)
	if err != nil {
		reportMissing(t, "a Docker engine", "apt-get install docker.io and start dockerd")
	}
	c.NegotiateAPIVersionPing(ping) // now, because the client's first request is not safe for concurrent use
	return c
}

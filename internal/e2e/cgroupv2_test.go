package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/internal/testneeds"
)

// onCgroupV2 runs a program on what looks like a machine with cgroup v2 alone,
// and prints afterwards what cgroup mounts there are.
const onCgroupV2 = `set -e
mount --make-rprivate /
umount -R -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
"$@"
grep ' cgroup ' /proc/self/mounts || true`

// Devices are isolated on machines with cgroup v2 alone, and nothing of what
// that takes is left.
func TestDemoOnCgroupV2(t *testing.T) {
	testneeds.RequireRoot(t)
	if hasDriver() {
		t.Skip("this machine has a driver: the nodes would open")
	}
	work := filepath.Join(t.TempDir(), "work")
	c := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", onCgroupV2, "sh", releasedBinary(t), "local", "--free-ports", "--work-dir", work, "--run", example("hello-gpu.yaml"))
	var errs strings.Builder
	c.Stderr = &errs
	c.Env = os.Environ()
	text, err := c.Output()
	out := string(text)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, &errs)
	}
	if mine, denied := strings.Count(out, ": mine;"), strings.Count(out, ": denied"); mine != 1 || denied != 3 {
		t.Errorf("%d nodes open and %d denied, want 1 and 3:\n%s%s", mine, denied, out, &errs)
	}
	if !strings.HasSuffix(out, "job hello-gpu FINISHED\n") {
		t.Errorf("ends otherwise, or a mount is left:\n%s", out)
	}
	nothingLeft(t, work)
}

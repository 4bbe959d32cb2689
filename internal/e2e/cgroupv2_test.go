package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// cgroupV2Script runs a program in a mount namespace with only cgroup v2, and then prints the
// remaining mounts of cgroup v1.
const cgroupV2Script = `set -e
mount --make-rprivate /
umount -R -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
"$@"
grep ' cgroup ' /proc/self/mounts || true`

// TestDemoOnCgroupV2 checks that devices are isolated with cgroup v2 only, and that no cgroup
// or mount remains.
func TestDemoOnCgroupV2(t *testing.T) {
	testneeds.RequireRoot(t)
	if hasDriver() {
		t.Skip("this machine has a driver: the nodes would open")
	}
	work := filepath.Join(makeWorkDir(t), "work")
	c := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-c", cgroupV2Script, "sh", buildReleased(t), "local",
		"--free-ports", "--work-dir", work, "--run", examplePath("hello-gpu.yaml"))
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
		t.Errorf("the job did not finish, or a mount remains:\n%s", out)
	}
	requireNothingLeft(t, work)
}

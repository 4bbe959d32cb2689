package e2e

import (
	"strings"
	"testing"

	"mesos-gpu/framework"
	"mesos-gpu/internal/testneeds"
)

// checkProcessUser checks that tasks without an image have no rights of the agent's root unless
// they ask for them, and that they can use their sandbox and their GPU all the same.
func checkProcessUser(t *testing.T, c *cluster) {
	t.Helper()
	const attempt = `id -un
for procs in /sys/fs/cgroup/devices/cgroup.procs /sys/fs/cgroup/cgroup.procs; do
	[ -e $procs ] && (echo $$ > $procs) 2>/dev/null && echo left its cgroup
done
cd / && echo kept > $MESOS_SANDBOX/file && cat $MESOS_SANDBOX/file
test -n "$NVIDIA_VISIBLE_DEVICES" || echo no GPU`
	out := c.mustRun("run", "--gpus", "1", "--", "sh", "-c", attempt)
	if out != "nobody\nkept\n" {
		t.Errorf("a task that names no user: got\n%s", out)
	}
	if out := c.mustRun("run", "--user", "root", "--", "id", "-un"); strings.TrimSpace(out) != "root" {
		t.Errorf("a task with user root runs as %s", out)
	}
}

// TestTasksWithoutImageAreUnprivileged checks the embedded cluster.
func TestTasksWithoutImageAreUnprivileged(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	makeReadable(t, t.TempDir())
	checkProcessUser(t, startCluster(t, "--process-user", framework.DefaultProcessUser))
}

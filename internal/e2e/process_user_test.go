package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
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

// TestTasksWithoutImageAreUnprivileged checks the embedded cluster as root starts it. Its tasks
// cannot use the daemon's socket for changes either.
func TestTasksWithoutImageAreUnprivileged(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	work := makeWorkDir(t)
	c := startDaemon(t, binary, "local", "--free-ports", "--work-dir", work)
	checkProcessUser(t, c)
	sockets, err := filepath.Glob(filepath.Join(work, "*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("sockets of the daemon: %v, %v", sockets, err)
	}
	cordon := func(flags ...string) result {
		return c.run(append(append([]string{"run", "--gpus", "1", "--mem", "256MiB"}, flags...),
			"--", "sh", "-c", buildReleased(t)+" agent cordon --socket "+sockets[0]+" $NVIDIA_VISIBLE_DEVICES")...)
	}
	if r := cordon(); r.code == 0 || !strings.Contains(r.out+r.err, "uid") {
		t.Errorf("a task that changes the daemon's state: status %d\n%s%s", r.code, r.out, r.err)
	}
	if r := cordon("--user", "root"); r.code != 0 {
		t.Errorf("a task with user root: status %d\n%s%s", r.code, r.out, r.err)
	}
	root := startDaemon(t, binary, "local", "--free-ports", "--work-dir", t.TempDir(), "--process-user", "root")
	if out := root.mustRun("run", "--", "id", "-un"); out != "root\n" {
		t.Errorf("with --process-user root a task runs as %s", out)
	}
}

// TestWorkDirClosedToTasks: a cluster whose tasks could not enter their sandboxes does not start.
func TestWorkDirClosedToTasks(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	closed := makeWorkDir(t)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	r := runCommand(t, nil, "local", "--free-ports", "--work-dir", filepath.Join(closed, "work"))
	if r.code != 1 || !strings.Contains(r.err, "cannot enter "+closed) || !strings.Contains(r.err, "--process-user root") {
		t.Errorf("status %d\n%s", r.code, r.err)
	}
	r = runCommand(t, nil, "local", "--free-ports", "--work-dir", filepath.Join(makeWorkDir(t), "work"), "--process-user", "no-such-user")
	if r.code != 1 || !strings.Contains(r.err, "no-such-user") {
		t.Errorf("status %d\n%s", r.code, r.err)
	}
}

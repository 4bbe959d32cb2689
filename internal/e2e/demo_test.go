package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mesos-gpu/internal/local/agent"
	"mesos-gpu/internal/testing/testneeds"
)

func examplePath(name string) string {
	return filepath.Join("..", "..", "examples", name)
}

// TestDemo runs the first command of the tutorial twice in one work directory. It must leave
// no process, mount, cgroup or device node.
func TestDemo(t *testing.T) {
	work := makeWorkDir(t)
	for range 2 {
		r := runProgram(t, buildReleased(t), nil, nil, "local", "--free-ports", "--work-dir", work, "--run", examplePath("hello-gpu.yaml"))
		if r.code != 0 {
			t.Fatalf("status %d\n%s%s", r.code, r.out, r.err)
		}
		if lines := strings.Split(strings.TrimSpace(r.out), "\n"); lines[len(lines)-1] != "job hello-gpu FINISHED" {
			t.Errorf("ends with %q", lines[len(lines)-1])
		}
		for _, want := range []string{"RUNNING", "FINISHED", "given: GPU-"} {
			if !strings.Contains(r.out, want) {
				t.Errorf("output lacks %q:\n%s", want, r.out)
			}
		}
		if os.Geteuid() == 0 {
			if mine, denied := strings.Count(r.out, ": mine;"), strings.Count(r.out, ": denied"); mine != 1 || denied != 3 {
				t.Errorf("%d nodes open and %d denied, want 1 and 3:\n%s", mine, denied, r.out)
			}
		}
		if !strings.Contains(r.err, "simulat") && !hasDriver() {
			t.Errorf("does not say that the GPUs are simulated:\n%s", r.err)
		}
		requireNothingLeft(t, work)
	}
}

// TestDemoRemovesItsWorkDirectory checks that local without --work-dir creates a temporary one
// and removes it.
func TestDemoRemovesItsWorkDirectory(t *testing.T) {
	temp := makeWorkDir(t)
	r := runProgram(t, buildReleased(t), nil, []string{"TMPDIR=" + temp}, "local", "--free-ports", "--run", examplePath("hello-gpu.yaml"))
	if r.code != 0 {
		t.Errorf("status %d\n%s%s", r.code, r.out, r.err)
	}
	left, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func hasDriver() bool { return pathExists("/proc/driver/nvidia/version") }

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestDemoWithoutRoot checks that local works without root and prints one warning that devices
// are not isolated.
func TestDemoWithoutRoot(t *testing.T) {
	testneeds.RequireRoot(t) // to run as another user
	job := filepath.Join(t.TempDir(), "hello-gpu.yaml")
	text, err := os.ReadFile(examplePath("hello-gpu.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job, text, 0o644); err != nil {
		t.Fatal(err)
	}
	makeReadable(t, filepath.Dir(job))
	work := filepath.Join(os.TempDir(), fmt.Sprintf("mesos-gpu-e2e-unprivileged-%d", os.Getpid()))
	t.Cleanup(func() { os.RemoveAll(work) })
	unprivileged := &syscall.Credential{Uid: 65534, Gid: 65534}
	r := runProgram(t, buildReleased(t), unprivileged, []string{"HOME=/nonexistent"}, "local", "--free-ports", "--work-dir", work, "--run", job)
	if r.code != 0 || !strings.HasSuffix(r.out, "job hello-gpu FINISHED\n") {
		t.Errorf("status %d\n%s%s", r.code, r.out, r.err)
	}
	if n := strings.Count(r.err, "not isolated"); n != 1 {
		t.Errorf("%d warnings that devices are not isolated, want 1:\n%s", n, r.err)
	}
	requireNothingLeft(t, work)
}

// makeReadable makes dir and its parents in the temporary folder accessible for all users.
func makeReadable(t *testing.T, dir string) {
	t.Helper()
	for ; strings.HasPrefix(dir, os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// requireNothingLeft fails the test if a cluster with the work directory left processes,
// mounts, cgroups or GPU nodes.
func requireNothingLeft(t *testing.T, work string) {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		// A process may end before its environment is read. Executors and tasks have a
		// variable with the path of their sandbox.
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), "="+work+"/") {
			t.Errorf("left process %s", filepath.Dir(path))
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, work) {
			t.Errorf("left mount %s", line)
		}
	}
	for _, pattern := range []string{
		"/sys/fs/cgroup/*" + agent.Cgroup(filepath.Join(work, "agent")),
		"/sys/fs/cgroup" + agent.Cgroup(filepath.Join(work, "agent")),
	} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range left {
			t.Errorf("left cgroup %s", name)
		}
	}
	if !hasDriver() {
		if left, _ := filepath.Glob("/dev/nvidia*"); len(left) > 0 {
			t.Errorf("left nodes %v", left)
		}
	}
}

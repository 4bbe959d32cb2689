package agent

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// TestSandboxesAreClosedToOtherUsers checks the modes of what the agent creates for a process of
// a user: others can neither list sandboxes nor read what is in them.
func TestSandboxesAreClosedToOtherUsers(t *testing.T) {
	testneeds.RequireRoot(t)
	runs := filepath.Join(t.TempDir(), "executors", "e", "runs")
	sandbox := filepath.Join(runs, "run")
	if err := makeRunsFolder(runs); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(sandbox, 0o751); err != nil {
		t.Fatal(err)
	}
	check := func(path string, want os.FileMode, uid uint32) {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, owner := info.Mode().Perm(), info.Sys().(*syscall.Stat_t).Uid; got != want || owner != uid {
			t.Errorf("%s: mode %o of user %d, want %o of %d", path, got, owner, want, uid)
		}
	}
	check(runs, 0o700, 0)
	user := &syscall.Credential{Uid: 34, Gid: 34}
	if err := openRunsTo(runs, user); err != nil {
		t.Fatal(err)
	}
	check(runs, 0o711, 0) // an owner could replace a sandbox by a link
	out, err := openOutput(sandbox, "containers/c", user)
	if err != nil {
		t.Fatal(err)
	}
	out.close()
	check(filepath.Join(sandbox, "containers/c"), 0o700, 34)
	check(filepath.Join(sandbox, "containers"), 0o755, 0)
	if out, err = openOutput(sandbox, ".", nil); err != nil {
		t.Fatal(err)
	}
	out.close()
	check(filepath.Join(sandbox, "stderr"), 0o640, 0)
	check(sandbox, 0o751, 0)
}

package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// TestAlias checks that a command runs in its folder under the second path, and that a link in the sandbox, which a task may have
// made, does not lead the mount to other files.
func TestAlias(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true)
	links, sandbox := filepath.Join(r.dir, "tasks"), filepath.Join(r.dir, "sandbox")
	for _, dir := range []string{links, filepath.Join(sandbox, "containers/a")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(sandbox, "containers/b")); err != nil {
		t.Fatal(err)
	}
	launch := func(folder string) (LaunchSpec, error) {
		s := r.spec("pwd -P; echo text > file")
		s.Command.Dir = filepath.Join(links, "task")
		s.Alias = &FolderAlias{Root: sandbox, Folder: folder, Path: s.Command.Dir}
		c, err := r.engine.Launch(t.Context(), s)
		if err == nil {
			r.wait(c)
			err = c.RemoveCgroup()
		}
		return s, err
	}
	s, err := launch("containers/a")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.read(s.Stdout.Name()); got != s.Command.Dir {
		t.Errorf("the command runs in %s, want %s: %s", got, s.Command.Dir, r.read(s.Stderr.Name()))
	}
	if got := r.read(filepath.Join(sandbox, "containers/a/file")); got != "text" {
		t.Errorf("its file has %q", got)
	}
	if entries, err := os.ReadDir(links); err != nil || len(entries) != 0 {
		t.Errorf("outside of the container there are %v, %v", entries, err)
	}
	if _, err := launch("containers/b"); err == nil || !strings.Contains(err.Error(), "path escapes") {
		t.Errorf("a link out of the sandbox: %v", err)
	}
}
